import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { leaveNothing, type Neap, newDataDir, startNeap } from '../neap.ts'
import { kill, outsidePid, postmastersOf, until } from '../processes.ts'
import { branchOff, computeOf, endpointOf, firstPlace, operationsOf, type Place, settled } from '../project.ts'

/* After damage by hand, catalog and machine converge without intervention, and operations record the events. */

const dataDir = newDataDir()
let neap: Neap
let place: Place
let other: Place

before(async () => {
  neap = await startNeap({ dataDir })
  place = await firstPlace(neap)
  other = await branchOff(neap, place)
  await query(neap, place.uri, 'create table kept as select 7 as value')
})

after(async () => {
  await neap?.end()
  await leaveNothing(dataDir)
})

const pgdata = ({ branch_id }: Place) => join(dataDir, 'branches', branch_id, 'pgdata')
const runs = (where: Place) => postmastersOf(dataDir).find(({ directory }) => directory === pgdata(where))?.pid

/** Starts both computes and returns their pids. */
async function bothRun(): Promise<{ pid: number; otherPid: number }> {
  for (const where of [place, other]) {
    await query(neap, where.uri, 'select 1')
    await settled(neap, where, 'active')
  }
  const [pid, otherPid] = [runs(place), runs(other)]
  assert.ok(pid && otherPid)
  return { pid, otherPid }
}

/** The recorded errors of unexpected exits, newest first. */
async function ends({ endpoint_id }: Place): Promise<string[]> {
  const operations = await operationsOf(neap, place)
  return operations.flatMap((operation) =>
    operation.endpoint_id === endpoint_id && operation.status === 'failed' ? [operation.error ?? ''] : [],
  )
}

/** Kills the control plane, runs `act`, and starts it again. The catalog keeps running. */
async function whileDown(act: () => Promise<void>): Promise<void> {
  await neap.kill()
  await act()
  neap = await startNeap({ dataDir })
}

const kept = () => query(neap, place.uri, 'select value from kept')

test('the end of a killed compute is detected without a connection and recorded', async () => {
  const { pid, otherPid } = await bothRun()
  await kill(pid)
  await settled(neap, place, 'idle')
  const endpoint = await endpointOf(neap, place)
  assert.ok(endpoint.suspended_at)
  const [end, ...more] = await ends(place)
  assert.match(end ?? '', /^Postgres ended without having been asked to.* The next connection starts it again\.$/)
  assert.deepEqual(more, [])
  assert.deepEqual(await kept(), [{ value: 7 }])
  assert.equal(runs(other), otherPid)
  assert.deepEqual(await ends(other), [])
})

test('the end of a compute is recorded when a client reconnects at once', async () => {
  const { pid } = await bothRun()
  const known = await ends(place)
  await kill(pid)
  assert.deepEqual(await kept(), [{ value: 7 }])
  await settled(neap, place, 'active')
  const [end, ...more] = await until('it is on record', async () => {
    const found = await ends(place)
    return found.length > known.length && found
  })
  assert.match(end ?? '', /^Postgres ended without/)
  assert.deepEqual(more, known)
})

test('a killed backend ends its compute; that is recorded, and the next connection starts it', async () => {
  const { pid } = await bothRun()
  const known = (await ends(place)).length
  const lost = Promise.withResolvers<Error>()
  const [victim, session] = [await connect(neap, place.uri), await connect(neap, place.uri, { lost: lost.resolve })]
  const { rows } = await victim.query<{ pid: number }>('select pg_backend_pid() as pid')
  process.kill(outsidePid(pid ?? 0, rows[0]?.pid ?? 0), 'SIGKILL')
  await lost.promise
  for (const client of [victim, session]) await client.end().catch(() => {})
  // Before the next run: the log does not tell two apart that begin in one second.
  await until('the end is on record', async () => (await ends(place)).length > known)
  assert.deepEqual(await kept(), [{ value: 7 }])
  assert.notEqual((await computeOf(neap, place))?.pid, pid)
  const [end, ...earlier] = await ends(place)
  assert.match(end ?? '', /^Postgres ended .*terminated by signal 9/)
  assert.equal(earlier.length, known)
})

test('the end of a compute while the control plane is down is recorded afterwards', async () => {
  const { pid, otherPid } = await bothRun()
  const known = (await ends(other)).length
  await whileDown(() => kill(otherPid))
  assert.equal(runs(place), pid)
  await settled(neap, other, 'idle')
  assert.equal((await ends(other)).length, known + 1)
  assert.match((await ends(other))[0] ?? '', /^Postgres ended without/)
  assert.equal((await endpointOf(neap, place)).current_state, 'active')
  await whileDown(() => kill(pid))
  // Only the compute knows whether the first project's password is still valid: the start woke it to check.
  assert.equal(neap.ready.connection_uri, place.uri)
  assert.ok(runs(place))
  await kept()
})

test('a compute starts despite a broken postmaster.pid', async () => {
  const { otherPid } = await bothRun()
  const foreign = readFileSync(join(pgdata(other), 'postmaster.pid'), 'utf8')
  const broken: Record<string, string> = {
    empty: '',
    garbage: '\0\xff not a number\n\n\n',
    'of another process': foreign.replace(/^\d+/, String(process.pid)),
    'of another server': foreign,
  }
  for (const [what, content] of Object.entries(broken)) {
    // If killed before its start operation has ended, it would only be started again.
    await settled(neap, place, 'active')
    await kill(runs(place))
    writeFileSync(join(pgdata(place), 'postmaster.pid'), content)
    await settled(neap, place, 'idle')
    assert.deepEqual(await kept(), [{ value: 7 }], what)
    assert.equal(runs(other), otherPid, what)
  }
  await settled(neap, place, 'active')
  await whileDown(async () => {
    await kill(runs(place))
    writeFileSync(join(pgdata(place), 'postmaster.pid'), foreign)
  })
  assert.deepEqual(await kept(), [{ value: 7 }])
  assert.equal(runs(other), otherPid)
})

test('only an orphaned compute is stopped', async () => {
  const forget = () =>
    catalogQuery(
      neap,
      `update endpoint set current_state = 'idle', pending_state = null, compute_id = null where id = $1`,
      [other.endpoint_id],
    )
  for (const worker of ['alone', 'with all']) {
    const { pid } = await bothRun()
    if (worker === 'alone') {
      await forget()
      await kill(neap.part('worker'))
    } else await whileDown(async () => void (await forget()))
    await until('it is stopped', () => runs(other) === undefined)
    await settled(neap, other, 'idle')
    assert.equal(runs(place), pid)
    assert.equal((await endpointOf(neap, place)).current_state, 'active')
  }
})

test('files of an unknown branch are kept and reported', async () => {
  const stranger = join(dataDir, 'branches', 'br-not-ours-12345678')
  mkdirSync(join(stranger, 'pgdata'), { recursive: true })
  writeFileSync(join(stranger, 'pgdata', 'precious'), 'data')
  const log = () => readFileSync(join(dataDir, 'parts', 'worker.log'), 'utf8')
  await whileDown(async () => {})
  assert.match(log(), /"store":"br-not-ours-12345678".*the catalog does not know this store; left alone/)
  assert.equal(readFileSync(join(stranger, 'pgdata', 'precious'), 'utf8'), 'data')
  assert.ok(existsSync(pgdata(place)))
})
