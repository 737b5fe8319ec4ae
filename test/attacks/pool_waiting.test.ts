import assert from 'node:assert/strict'
import { after, before, test as nodeTest } from 'node:test'
import type pg from 'pg'
import { connect } from '../proxy/fixture.ts'
import { makeScene, type Scene } from '../proxy/protocol.ts'
import { query, type RawClient, rawClient } from '../proxy/protocol_client.ts'

/* A slow reset, or one lost with its compute, must not keep other pooled clients from being served. */

const test = (name: string, body: () => Promise<void>): void => void nodeTest(name, { timeout: 20_000 }, body)

let scene: Scene

before(async () => {
  scene = await makeScene()
})
after(() => scene.fixture.close())

const raw = (): Promise<RawClient> => rawClient(scene.way('pooled'))

async function pidOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid ?? 0
}

/**
 * Uses both sessions of the pool. Returns the backend pid of the one that is released last, which is assigned first.
 */
async function useBoth(): Promise<number> {
  const users = await Promise.all([0, 1].map(() => connect(scene.proxy.port, scene.host('pooled'))))
  const [first, last] = users as [pg.Client, pg.Client]
  await first.query('begin')
  await last.query('begin')
  const pid = await pidOf(last)
  await first.query('commit')
  await last.query('commit')
  await Promise.all(users.map((user) => user.end()))
  return pid
}

test('a client is served repeatedly while another waits for a slow reset', async () => {
  const [slow, other] = await Promise.all([raw(), raw()])
  const pid = await useBoth()
  process.kill(pid, 'SIGSTOP')
  try {
    // Two requests in one write are not pipelined behind a reset: they wait for its end, and the backend is frozen.
    slow.send(query('select 1'), query('select 2'))
    for (const n of [3, 4, 5]) {
      other.send(query(`select ${n}`))
      assert.deepEqual(await other.answer(), ['T 1', `D ${n}`, 'C SELECT 1', 'Z I'])
    }
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  for (const n of [1, 2]) assert.deepEqual(await slow.answer(), ['T 1', `D ${n}`, 'C SELECT 1', 'Z I'])
  slow.close()
  other.close()
})

test('requests are answered after the reset before them was lost with its session', async () => {
  const [client, witness] = await Promise.all([raw(), connect(scene.proxy.port, scene.host('direct'))])
  witness.on('error', () => {})
  const pid = await useBoth()
  process.kill(pid, 'SIGSTOP')
  // Once the proxy has answered a later query, it has read the earlier message.
  client.send(query('select 6'))
  await witness.query('select 1')
  client.send(query('select 7'))
  await witness.query('select 1')
  process.kill(pid, 'SIGKILL')
  const [lost, ready] = await client.answer()
  assert.match(lost ?? '', /^E 40003/)
  assert.equal(ready, 'Z I')
  // The request may have been sent to the other session just before that one ended, too.
  assert.equal((await client.answer()).at(-1), 'Z I')
  client.close()
})
