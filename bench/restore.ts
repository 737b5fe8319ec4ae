/*
 * From the request for a branch at a second ago to its first row: right after a base, and with much WAL since. The
 * branch is exact: the commit before the moment is in it, the one after is not.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { query } from '../test/clients.ts'
import { firstPlace, type Place } from '../test/project.ts'
import { startWithClones } from './load/clones.ts'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 10)
/** MiB of data, and of WAL since the base, which is the template. */
const DATA_MIB = Number(process.argv[3] ?? 10)
const WAL_MIB = Number(process.argv[4] ?? 200)

const neap = await startWithClones(DATA_MIB + WAL_MIB, { NEAP_HISTORY_MB: '4096' })
const young: number[] = []
const much: number[] = []
let exact = 0
let mode = ''
try {
  const place = await firstPlace(neap)
  mode = (await neap.call('GET /status', {})).hosts[0]?.clone_mode ?? ''
  await query(neap, place.uri, 'create table mark (number int)')
  await query(neap, place.uri, `create table data as ${rows(DATA_MIB)}`)
  for (let round = 0; round < ROUNDS; round++) young.push(await restoreOnce(place, round))
  const before = await walOf(place)
  while ((await walOf(place)) - before < WAL_MIB * 2 ** 20) {
    await query(neap, place.uri, `create table filler as ${rows(20)}`)
    await query(neap, place.uri, 'drop table filler')
  }
  for (let round = 0; round < ROUNDS; round++) much.push(await restoreOnce(place, ROUNDS + round))
} finally {
  await neap.stop()
}

function rows(mib: number): string {
  return `select repeat(md5(i::text), 30) as text from generate_series(1, ${mib * 1000}) i`
}

async function walOf({ uri }: Place): Promise<number> {
  const [row] = await query<{ bytes: number }>(neap, uri, `select (pg_current_wal_lsn() - '0/0')::float8 as bytes`)
  return row?.bytes ?? 0
}

async function restoreOnce(place: Place, number: number): Promise<number> {
  await query(neap, place.uri, `insert into mark values (${number})`)
  await pause(20)
  const parent_timestamp = new Date().toISOString()
  await pause(1_000)
  await query(neap, place.uri, `insert into mark values (-1)`)
  const params = { project_id: place.project_id }
  const begun = performance.now()
  const { branch, endpoints } = await neap.call('POST /projects/:project_id/branches', {
    params,
    body: { branch: { parent_id: place.branch_id, parent_timestamp }, endpoints: [{ type: 'read_write' }] },
  })
  const uri = place.uri.replace(place.endpoint_id, endpoints[0]?.id ?? '')
  const [row] = await query<{ last: number; after: number }>(
    neap,
    uri,
    'select max(number) as last, count(*) filter (where number = -1)::int as after from mark',
  )
  const ms = performance.now() - begun
  if (row?.last === number && row.after === number) exact++
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { ...params, branch_id: branch.id },
  })
  await neap.ended(operations)
  return ms
}

report(
  'restore',
  [
    `young: POST of a branch at a second ago, with an endpoint, of ${DATA_MIB} MiB of data, to its first row`,
    `much:  the same with ${WAL_MIB} MiB of WAL more to replay`,
    `branches are made by ${mode}`,
  ],
  { young, much },
  [
    { what: 'young p50', value: percentile(young, 0.5), most: 2_000, unit: ' ms' },
    { what: 'much p50', value: percentile(much, 0.5), most: 2_000, unit: ' ms' },
    { what: 'exact', value: (100 * exact) / (2 * ROUNDS), least: 100, unit: ' %' },
  ],
)
