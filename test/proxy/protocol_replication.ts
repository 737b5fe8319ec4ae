import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { byOptions, observer, until } from './fixture.ts'
import type { Kind, On, Scene } from './protocol.ts'
import { copyDone, query, rawClient } from './protocol_client.ts'
import { PASSWORD } from './servers.ts'

/*
 * Replication, which needs a session of its own: on direct hosts. And TLS without SSLRequest, which psql 15 cannot do.
 */

const PROGRAMS = '/usr/lib/postgresql/15/bin'

export function replicationTests(on: On, kind: Kind, version: number): void {
  on('TLS from the first byte, and ALPN with another protocol', async ({ way }) => {
    const direct = { ...way(kind), direct: true }
    const client = await rawClient({ ...direct, tls: { ALPNProtocols: ['postgresql'] } })
    client.send(query('select 1'))
    assert.deepEqual(await client.answer(), ['T 1', 'D 1', 'C SELECT 1', 'Z I'])
    client.close()
    const socket = client.socket as typeof client.socket & { alpnProtocol?: string }
    assert.equal(socket.alpnProtocol, 'postgresql')
    await assert.rejects(rawClient({ ...direct, tls: { ALPNProtocols: ['http/1.1'] } }))
  })

  on('START_REPLICATION by the protocol', async (scene) => {
    const parameters = { replication: 'database' }
    if (kind === 'pooled') return assert.rejects(rawClient(scene.way(kind, parameters)), /0A000 replication/)
    const client = await rawClient(scene.way(kind, parameters))
    const slot = `raw_${version}`
    client.send(query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY LOGICAL test_decoding NOEXPORT_SNAPSHOT`))
    assert.match(String(await client.answer()), new RegExp(`^T 4,D ${slot}\\|`))
    client.send(query(`START_REPLICATION SLOT ${slot} LOGICAL 0/0`))
    assert.deepEqual(await client.next(1), ['W'])
    const watcher = await observer(scene.fixture)
    await watcher.query("insert into item values (4711, 'replicated')")
    await until(async () => String(await client.next(1)).includes('replicated'))
    await watcher.query('delete from item where id = 4711')
    await watcher.end()
    client.send(copyDone())
    await client.answer()
    client.send(query('IDENTIFY_SYSTEM'))
    assert.match(String(await client.answer()), /postgres/)
    client.close()
  })

  if (version !== 15 || kind === 'pooled') return
  const absent = existsSync(PROGRAMS) ? false : `${PROGRAMS} is not here`

  on(
    'pg_receivewal and pg_recvlogical',
    async (scene) => {
      const watcher = await observer(scene.fixture)
      const dir = await mkdtemp(join(tmpdir(), 'neap-wal-'))
      await streams(scene, 'pg_receivewal', ['-D', dir], async () => {
        const streaming = "select 1 from pg_stat_replication where state = 'streaming'"
        await until(async () => (await watcher.query(streaming)).rowCount === 1)
        await watcher.query("select pg_logical_emit_message(false, '', 'x'), pg_switch_wal()")
        await until(async () => (await readdir(dir)).some((name) => /^[0-9A-F]{24}$/.test(name)))
      })
      const logical = ['--slot', 'recv', '-P', 'test_decoding']
      // A slot waits for the next list of running transactions, which a checkpoint writes too.
      let isMade = false
      const made = streams(scene, 'pg_recvlogical', [...logical, '--create-slot'], async () => {}).finally(
        () => (isMade = true),
      )
      await until(async () => {
        await watcher.query('checkpoint')
        return isMade
      })
      await made
      await streams(scene, 'pg_recvlogical', [...logical, '--start', '-f', '-'], async (output) => {
        await watcher.query("insert into item values (4712, 'received')")
        await until(async () => output().includes('received'))
        await watcher.query('delete from item where id = 4712')
      })
      await until(async () => (await watcher.query('select 1 from pg_replication_slots where active')).rowCount === 0)
      await streams(scene, 'pg_recvlogical', [...logical, '--drop-slot'], async () => {})
      await watcher.end()
      await rm(dir, { recursive: true })
    },
    absent,
  )
}

/** Runs one of the programs until `seen` has resolved. */
async function streams(
  { proxy, host }: Scene,
  program: string,
  args: string[],
  seen: (output: () => string) => Promise<void>,
): Promise<void> {
  const child = spawn(join(PROGRAMS, program), [...args, '-n', '-d', byOptions(proxy.port, host('direct'))], {
    env: { PATH: process.env['PATH'], PGPASSWORD: PASSWORD },
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  const ended = once(child, 'exit')
  const isOneShot = /--(create|drop)-slot/.test(args.join(' '))
  await Promise.race([
    seen(() => output),
    ended.then(([code]: unknown[]) => {
      if (!isOneShot || code !== 0) throw new Error(`${program} ended with ${String(code)}: ${errors}`)
    }),
  ])
  if (!isOneShot) child.kill('SIGINT')
  const [code] = (await ended) as [number | null]
  assert.equal(code, 0, errors)
}
