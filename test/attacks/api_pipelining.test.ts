import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'

/* A client without a key sends many requests on one connection and reads no answers. */

const REQUESTS = 1_400

let neap: Neap
const sockets = new Set<Socket>()

before(async () => {
  neap = await startNeap()
})

after(async () => {
  for (const socket of sockets) socket.destroy()
  await neap?.stop()
})

/** Resolves when the server has closed the connection. */
function flood(port: number, path: string): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  sockets.add(socket)
  socket.pause()
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`.repeat(REQUESTS))
  return new Promise((resolve) => {
    // The client sees the close only after it has read the earlier answers.
    socket.once('error', () => resolve()).once('close', () => resolve())
    setTimeout(() => socket.resume(), 3_000)
  })
}

/** The peak memory of a process, in MB. */
const peakMb = (pid: number) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test('pipelined requests for large documents take little memory, and their connection is closed', async (t) => {
  if (process.platform !== 'linux') return t.skip('reads /proc')
  const pid = neap.part('api') as number
  const port = Number(new URL(neap.ready.api_url).port)
  const peakBefore = peakMb(pid)
  await Promise.all(['/api/v2/openapi.json', '/docs', '/api/v2/openapi.json'].map((path) => flood(port, path)))
  const grown = peakMb(pid) - peakBefore
  t.diagnostic(`the API grew by ${Math.round(grown)} MB`)
  assert.ok(grown < 150, `${Math.round(grown)} MB`)
  assert.equal(neap.part('api'), pid)
  assert.equal((await send(neap, 'GET', '/projects')).status, 200)
})

test('pipelined requests for metrics take little memory, and their connection is closed', async (t) => {
  if (process.platform !== 'linux') return t.skip('reads /proc')
  const { stdout } = await neapRun(['status', '--json'], envOf(neap.ready.data_dir))
  const port = (JSON.parse(stdout) as { proxy_metrics_port: number }).proxy_metrics_port
  const pids = neap.parts('proxy')
  const peaksBefore = pids.map(peakMb)
  await Promise.all([1, 2, 3].map(() => flood(port, '/metrics')))
  const grown = Math.max(...pids.map((pid, index) => peakMb(pid) - (peaksBefore[index] ?? 0)))
  t.diagnostic(`the proxy grew by ${Math.round(grown)} MB`)
  assert.ok(grown < 100, `${Math.round(grown)} MB`)
})

test('a client may send ten requests before it reads the first answer', async () => {
  const socket = connect(Number(new URL(neap.ready.api_url).port), '127.0.0.1')
  sockets.add(socket)
  let said = ''
  socket.setEncoding('latin1').on('data', (text: string) => (said += text))
  const request = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n'
  socket.write(`${`${request}\r\n`.repeat(9)}${request}connection: close\r\n\r\n`)
  await new Promise((resolve) => socket.once('close', resolve))
  assert.equal(said.split('HTTP/1.1 200 OK').length - 1, 10)
})
