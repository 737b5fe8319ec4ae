import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, operationsOf, type Place, settled, suspend } from '../project.ts'

/* Many clients connect to one small idle endpoint at once. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const CLIENTS = 200

test(`one start serves ${CLIENTS} clients that connect to a suspended endpoint of 0.25 CU`, async () => {
  await suspend(neap, place)
  const before_burst = await operationsOf(neap, place)
  const clients: pg.Client[] = []
  const lost: Error[] = []
  try {
    const answers = await Promise.all(
      Array.from({ length: CLIENTS }, async (_, number) => {
        const client = await connect(neap, place.uri, { lost: (error) => lost.push(error) })
        clients.push(client)
        const { rows } = await client.query<{ number: number }>('select $1::int as number', [number])
        return rows[0]?.number
      }),
    )
    assert.deepEqual(answers, [...Array(CLIENTS).keys()])
    // All sessions are still open, concurrently.
    const [first] = clients as [pg.Client]
    const { rows } = await first.query(
      `select count(*)::int as open from pg_stat_activity
        where backend_type = 'client backend' and datname = current_database()`,
    )
    assert.deepEqual(rows, [{ open: CLIENTS }])
    assert.deepEqual(lost, [])
  } finally {
    await Promise.all(clients.map((client) => client.end()))
  }
  await settled(neap, place, 'active')
  const added = (await operationsOf(neap, place)).slice(0, -before_burst.length)
  assert.deepEqual(
    added.map(({ action, status }) => [action, status]),
    [['start_compute', 'finished']],
  )
})
