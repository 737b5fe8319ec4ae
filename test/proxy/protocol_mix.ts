import assert from 'node:assert/strict'
import type pg from 'pg'
import { type Random, randomOf } from '../random.ts'
import { connect, observer } from './fixture.ts'
import type { Kind, On } from './protocol.ts'
import { cancel } from './protocol_client.ts'
import { int32 } from '../../src/proxy/wire/messages.ts'

/* Many clients with all kinds of statements at once over few sessions: no client may get the answer of another. */

const CLIENTS = 50
const ROUNDS = 12
const ACCOUNTS = 20

/** An action of client number `me`, which checks that the answer is its own. */
type Workload = (client: pg.Client, me: number, random: Random, port: number) => Promise<void>

const one = async (client: pg.Client, query: pg.QueryConfig): Promise<unknown> =>
  Object.values((await client.query<Record<string, unknown>>(query)).rows[0] ?? {})[0]

const WORKLOADS: Record<string, Workload> = {
  async simple(client, me) {
    assert.equal(await one(client, { text: `select 'it is ${me}'` }), `it is ${me}`)
  },
  async unnamed(client, me) {
    assert.equal(await one(client, { text: 'select $1::int * 2', values: [me] }), me * 2)
  },
  async named(client, me, random) {
    const which = random.between(1, 5)
    // The same name stands for different texts at different clients.
    const text = `select $1::int + ${which + (me % 3)}`
    assert.equal(await one(client, { name: `plus ${which}`, text, values: [me] }), me + which + (me % 3))
  },
  async pipelined(client, me) {
    const answers = await Promise.all(
      [1, 2, 3].map((n) => one(client, { text: 'select $1::text', values: [`${me}/${n}`] })),
    )
    assert.deepEqual(answers, [`${me}/1`, `${me}/2`, `${me}/3`])
  },
  async fails(client) {
    await assert.rejects(client.query('select 1 / $1::int', [0]), { code: '22012' })
  },
  async rows(client, me) {
    const { rows } = await client.query<{ me: number }>('select $1::int as me from generate_series(1, 500)', [me])
    assert.equal(rows.filter((row) => row.me === me).length, 500)
  },
  async setting(client, me) {
    await client.query(`set application_name = 'client ${me}'`)
    assert.equal(await one(client, { text: 'show application_name' }), `client ${me}`)
  },
  async transaction(client, me, random) {
    const [from, to] = [random.between(1, ACCOUNTS), random.between(1, ACCOUNTS)].sort((a, b) => a - b)
    await client.query('begin')
    await client.query('select set_config($1, $2, true)', ['neap.me', String(me)])
    await client.query('update account set balance = balance - 1 where id = $1', [from])
    await client.query('update account set balance = balance + 1 where id = $1', [to])
    assert.equal(await one(client, { text: "select current_setting('neap.me')" }), String(me))
    await client.query(random.chance(0.5) ? 'commit' : 'rollback')
  },
  async aborted(client) {
    await client.query('begin')
    await assert.rejects(client.query('select nonsense'), { code: '42703' })
    await assert.rejects(client.query('select 1'), { code: '25P02' })
    await client.query('rollback')
  },
  async temporary(client, me) {
    await client.query('begin; create temp table mine on commit drop as select 0 as me')
    await client.query('update mine set me = $1', [me])
    assert.equal(await one(client, { text: 'select me from mine' }), me)
    await client.query('commit')
  },
  async cancelled(client, me, _random, port) {
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number }
    const sleeping = client.query('select pg_sleep(0.05), $1::int as me', [me]).then(
      () => undefined,
      (error: unknown) => (error as pg.DatabaseError).code,
    )
    await cancel(port, Buffer.concat([int32(processID), int32(secretKey)]))
    assert.ok([undefined, '57014'].includes(await sleeping))
  },
}

export function mixTests(on: On, kind: Kind): void {
  on(`${CLIENTS} clients with mixed workloads`, async ({ fixture, proxy, host }) => {
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect(proxy.port, host(kind))))
    await Promise.all(
      clients.map(async (client, me) => {
        const random = randomOf(1, `client ${me}`)
        for (let round = 0; round < ROUNDS; round++) {
          const [name, workload] = random.pick(Object.entries(WORKLOADS))
          await workload(client, me, random, proxy.port).catch((error: unknown) => {
            throw new Error(`client ${me}, round ${round}: ${name}`, { cause: error })
          })
        }
      }),
    )
    const watcher = await observer(fixture)
    const { rows } = await watcher.query<{ sum: number }>('select sum(balance)::int as sum from account')
    assert.deepEqual(rows, [{ sum: ACCOUNTS * 100 }])
    await Promise.all([...clients, watcher].map((client) => client.end()))
  })
}
