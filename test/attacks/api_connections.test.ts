import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace } from '../project.ts'

/*
 * One address opens connections without finishing its requests. Other clients of that address, which may belong to
 * other users, are still served.
 */

const PER_ADDRESS = 50

let neap: Neap
const sockets = new Set<Socket>()

before(async () => {
  neap = await startNeap({ env: { NEAP_API_CONNECTIONS_PER_ADDRESS: String(PER_ADDRESS) } })
})

after(async () => {
  for (const socket of sockets) socket.destroy()
  await neap?.stop()
})

/** A connection that sends an incomplete request. */
function loris(where: { port: number } | { path: string }): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(where, () => {
      socket.write('GET /api/v2/projects HTTP/1.1\r\nhost: localhost\r\n', () => resolve(socket))
    })
    sockets.add(socket)
    socket.once('error', reject).on('error', () => {})
    socket.resume()
  })
}

const open = (of: readonly Socket[]) => of.filter((socket) => socket.readyState === 'open')

test('the oldest connections without a complete request end when an address has too many', async () => {
  const { project_id } = await firstPlace(neap)
  const port = Number(new URL(neap.ready.api_url).port)
  const key = neap.ready.api_key ?? ''
  const stop = new AbortController()
  const stream = await fetch(`${neap.ready.api_url}/projects/${project_id}/operations/stream`, {
    headers: { authorization: `Bearer ${key}` },
    signal: stop.signal,
  })
  try {
    const lorises: Socket[] = []
    for (let each = 0; each < 4 * PER_ADDRESS; each++) lorises.push(await loris({ port }))
    // A client that connects after all of them.
    assert.equal((await send(neap, 'GET', '/projects', { headers: { connection: 'close' } })).status, 200)
    await until('the end of those that are too many', () => open(lorises).length < PER_ADDRESS)
    assert.deepEqual(open(lorises), lorises.slice(-open(lorises).length), 'the last ones are left')
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
    assert.equal((await reader.read()).done, false, 'what is under way goes on')
    for (const socket of lorises) socket.destroy()
  } finally {
    stop.abort()
  }
})

test('requests are refused with a reason when an address has all its connections in use', async () => {
  const { project_id } = await firstPlace(neap)
  const stops = Array.from({ length: PER_ADDRESS }, () => new AbortController())
  /** Keeps a reference: fetch closes the connection of a garbage-collected response. */
  const streams: Response[] = []
  try {
    await until('no connection of before', async () => (await neap.call('GET /projects', {})).projects)
    const follow = (signal: AbortSignal) =>
      fetch(`${neap.ready.api_url}/projects/${project_id}/operations/stream`, {
        headers: { authorization: `Bearer ${neap.ready.api_key}` },
        signal,
      })
    // Connections of the previous tests may still be closing.
    for (const { signal } of stops)
      streams.push(
        await until('a stream', async () => {
          const stream = await follow(signal)
          return stream.status === 200 && stream
        }),
      )
    // A connection that has just become idle is closed first.
    const answer = await until('a refusal', async () => {
      const found = await send(neap, 'GET', '/projects', { headers: { connection: 'close' } })
      return found.status === 200 ? undefined : found
    })
    assert.deepEqual([answer.status, answer.body.code], [429, 'RATE_LIMITED'])
    assert.match(answer.body.message ?? '', /50 connections/)
    assert.equal(streams.length, PER_ADDRESS)
    assert.ok((await neap.call('GET /projects', {})).projects.length > 0, 'the administration socket has no such limit')
  } finally {
    for (const stop of stops) stop.abort()
  }
})

test('the administration socket takes any number of connections', async () => {
  const path = join(neap.ready.data_dir, 'api.sock')
  const lorises = await Promise.all(Array.from({ length: 2 * PER_ADDRESS }, () => loris({ path })))
  const status = await new Promise((resolve, reject) => {
    request({ socketPath: path, path: '/api/v2/projects' }, ({ statusCode }) => resolve(statusCode))
      .once('error', reject)
      .end()
  })
  assert.deepEqual([status, open(lorises).length], [200, lorises.length])
  for (const socket of lorises) socket.destroy()
})

test(
  'a connection ends within seconds when the headers of its request stay incomplete',
  { timeout: 40_000 },
  async () => {
    const socket = await loris({ port: Number(new URL(neap.ready.api_url).port) })
    let said = ''
    socket.setEncoding('latin1').on('data', (text: string) => (said += text))
    await new Promise((resolve) => socket.once('close', resolve))
    assert.match(said, /^HTTP\/1\.1 408 /)
  },
)
