import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { randomOf } from '../random.ts'
import { connect, observer, until } from './fixture.ts'
import { makeScene, type Scene } from './protocol.ts'

/* Pooled clients at work while their compute is stopped repeatedly, as by a suspend, a restart, a move or a resize. */

const CLIENTS = 16
const STOPS = 6
const SIZE = 4

/** Errors of a statement that was running at a stop: its effect is unknown, or its transaction is rolled back. */
const MAY_FAIL = new Set(['40001', '40003', '25P02'])

let scene: Scene
before(async () => {
  scene = await makeScene(18, SIZE)
})
after(() => scene.fixture.close())

interface Worker {
  readonly me: number
  readonly client: pg.Client
  /** Numbers of the entries that Postgres confirmed, and of those with an unknown outcome. */
  readonly kept: number[]
  readonly unsure: number[]
  ended: boolean
}

async function work(worker: Worker, isOver: () => boolean): Promise<void> {
  const { me, client, kept, unsure } = worker
  const random = randomOf(7, `worker ${me}`)
  for (let seq = 0; !isOver(); seq++) {
    const entry = { name: 'enter', text: 'insert into ledger values ($1, $2)', values: [me, seq] }
    try {
      if (random.chance(0.5)) await client.query(entry)
      else {
        await client.query('begin')
        await client.query('update account set balance = balance - 1 where id = 1')
        await client.query('update account set balance = balance + 1 where id = 2')
        await client.query(entry)
        await client.query('commit')
      }
      kept.push(seq)
    } catch (error) {
      const { code = '' } = error as pg.DatabaseError
      assert.ok(MAY_FAIL.has(code), `client ${me}: ${code} ${String(error)}`)
      unsure.push(seq)
      await client.query('rollback')
    }
  }
}

test(
  'stops of the compute end no connection, lose no acknowledged write and repeat none',
  { timeout: 120_000 },
  async () => {
    const { fixture, proxy, endpoint, host } = scene
    const setUp = await observer(fixture)
    await setUp.query('create table ledger (me int, seq int); grant all on ledger, account to alice')
    await setUp.end()
    const open = async (me: number): Promise<Worker> => {
      const worker: Worker = {
        me,
        client: await connect(proxy.port, host('pooled')),
        kept: [],
        unsure: [],
        ended: false,
      }
      worker.client.on('end', () => {
        worker.ended = true
      })
      return worker
    }
    const [idle, ...workers] = await Promise.all(Array.from({ length: CLIENTS + 1 }, (_, me) => open(me)))
    assert.ok(idle)
    await idle.client.query({ name: 'kept', text: "set application_name = 'idle'" })

    let over = false
    // A failure ends all workers: otherwise they would keep the process alive and hide it.
    const working = Promise.all(workers.map((worker) => work(worker, () => over))).finally(() => (over = true))
    const done = (): number => workers.reduce((sum, { kept }) => sum + kept.length, 0)
    for (let stop = 0; stop < STOPS; stop++) {
      const sofar = done()
      await Promise.race([working, until(async () => over || done() > sofar + CLIENTS)])
      await fixture.idle(endpoint)
      await fixture.compute.stop('SIGINT')
    }
    const last = done()
    await Promise.race([working, until(async () => over || done() > last + CLIENTS)])
    over = true
    await working

    assert.deepEqual(
      workers.filter(({ ended }) => ended).map(({ me }) => me),
      [],
      'connections have ended',
    )
    const { rows } = await idle.client.query<{ name: string }>("select current_setting('application_name') as name")
    assert.deepEqual(rows, [{ name: 'idle' }])
    const watcher = await observer(fixture)
    const entries = await watcher.query<{ me: number; seq: number }>('select me, seq from ledger')
    const found = new Set(entries.rows.map(({ me, seq }) => `${me} ${seq}`))
    assert.equal(found.size, entries.rows.length, 'something was done twice')
    for (const { me, kept, unsure } of workers) {
      assert.deepEqual(
        kept.filter((seq) => !found.has(`${me} ${seq}`)),
        [],
        `client ${me} has an acknowledged row that is missing`,
      )
      for (const seq of [...kept, ...unsure]) found.delete(`${me} ${seq}`)
    }
    assert.deepEqual([...found], [])
    const sums = await watcher.query(
      'select sum(balance)::int as sum, min(balance) = 100 - (max(balance) - 100) as same from account',
    )
    assert.deepEqual(sums.rows, [{ sum: 2000, same: true }])
    await watcher.end()
    await Promise.all([idle, ...workers].map(({ client }) => client.end()))
  },
)
