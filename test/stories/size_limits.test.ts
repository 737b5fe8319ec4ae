import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, query } from '../clients.ts'
import { send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, newProject, operationsOf, type Place, suspend } from '../project.ts'

/* The size limit of branches, and a disk that is almost full, as their users see them. */

const MIB = 2 ** 20
let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table filled (data text)')
  await query(neap, place.uri, `alter table filled alter data set storage external`)
})

after(() => neap?.stop())

const limit = async (bytes: number, { project_id }: Place = place) => {
  const body = { project: { settings: { quota: { logical_size_bytes: bytes } } } }
  const { operations } = await neap.call('PATCH /projects/:project_id', { params: { project_id }, body })
  await neap.ended(operations)
}

const sizeOf = async ({ project_id, branch_id }: Place) => {
  const params = { project_id, branch_id }
  const { branch } = await neap.call('GET /projects/:project_id/branches/:branch_id', { params })
  return branch.logical_size ?? 0
}

const fill = (mebibytes: number) =>
  `insert into filled select repeat('x', 1000000) from generate_series(1, ${mebibytes})`

const refusing = (at: Place) => decided(at, true)
const accepting = (at: Place) => decided(at, false)

/** Waits until an endpoint refuses writes, or accepts them, and its compute knows. */
async function decided(at: Place, isRefused: boolean) {
  await until('it is decided', async () => ((await endpointOf(neap, at)).writes_refused !== undefined) === isRefused)
  await neap.ended((await operationsOf(neap, at)).slice(0, 1))
}

const REFUSED = {
  code: '53100',
  message: 'cannot execute INSERT in a read-only transaction: the branch is larger than the limit of its project',
  hint: /BEGIN READ WRITE.*quota\.logical_size_bytes/,
}

test('a branch over its limit refuses writes, and takes them again once it is smaller', async () => {
  const size = await until('it is measured', () => sizeOf(place))
  await limit(size + 20 * MIB)
  const { project } = await neap.call('GET /projects/:project_id', { params: { project_id: place.project_id } })
  assert.equal(project.branch_logical_size_limit_bytes, size + 20 * MIB)
  const pooled = place.uri.replace(place.endpoint_id, `${place.endpoint_id}-pooler`)
  const clients = await Promise.all([place.uri, pooled].map((uri) => connect(neap, uri)))
  for (const client of clients) await client.query(fill(15))
  await refusing(place)
  for (const client of clients) {
    await assert.rejects(client.query(fill(1)), REFUSED)
    await assert.rejects(client.query(`insert into filled values ($1)`, ['x']), REFUSED)
    // The conversation goes on behind the error, and other errors are as they were.
    assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }])
    await assert.rejects(client.query('select 1 / 0'), { code: '22012' })
    assert.equal((await client.query('select data from filled')).rows.length, 30)
  }
  // Another session, and another kind of client.
  await assert.rejects(query(neap, place.uri, fill(1)), REFUSED)
  const [direct] = clients
  await direct?.query('begin read write')
  await direct?.query('truncate filled')
  await direct?.query('commit')
  await accepting(place)
  for (const client of clients) {
    await client.query(fill(1))
    await client.end()
  }
})

test('pooled clients follow the limit, whenever their pool was made', async () => {
  const pooled = place.uri.replace(place.endpoint_id, `${place.endpoint_id}-pooler`)
  const inserts = async (clients: Awaited<ReturnType<typeof connect>>[]) =>
    (await Promise.allSettled(clients.map((client) => client.query(fill(1))))).map(({ status }) => status)
  const early = await Promise.all([pooled, pooled, pooled].map((uri) => connect(neap, uri)))
  assert.deepEqual(await inserts(early), ['fulfilled', 'fulfilled', 'fulfilled'])
  await limit(1 * MIB)
  await refusing(place)
  // Each server connection of the pool comes to each client in turn.
  for (let round = 0; round < 3; round++) assert.deepEqual(await inserts(early), ['rejected', 'rejected', 'rejected'])
  await assert.rejects(query(neap, pooled, fill(1)), { code: '53100' })
  for (const client of early) await client.end()
  await suspend(neap, place)
  const late = await Promise.all([pooled, pooled].map((uri) => connect(neap, uri)))
  assert.deepEqual(await inserts(late), ['rejected', 'rejected'])
  await limit(0)
  await until('they write again', async () => (await inserts(late)).join() === 'fulfilled,fulfilled')
  // What a client chooses for itself stays its own.
  await late[0]?.query('set default_transaction_read_only = on')
  for (let round = 0; round < 3; round++) assert.deepEqual(await inserts(late), ['rejected', 'fulfilled'])
  await query(neap, pooled, fill(1))
  for (const client of late) await client.end()
})

test('a limit below the size stops nothing, holds after a sleep, and ends with a higher limit', async () => {
  await until('it is measured', () => sizeOf(place))
  const session = await connect(neap, place.uri)
  await limit(1 * MIB)
  assert.equal((await endpointOf(neap, place)).writes_refused, 'branch_size')
  await assert.rejects(session.query(fill(1)), { code: '53100' })
  await session.end()
  await suspend(neap, place)
  await assert.rejects(query(neap, place.uri, fill(1)), { code: '53100' })
  await limit(0)
  assert.equal((await endpointOf(neap, place)).writes_refused, undefined)
  await query(neap, place.uri, fill(1))
})

test('a branch that grows on over its limit is suspended, and starts with a higher limit', async () => {
  await limit(1 * MIB)
  const session = await connect(neap, place.uri)
  session.on('error', () => undefined)
  await session.query('set default_transaction_read_only = off')
  await session.query(fill(200))
  const text = /^Your account or project has exceeded the branch size quota\. .*quota\.logical_size_bytes/
  await until('it is suspended', async () => (await endpointOf(neap, place)).current_state === 'idle')
  await assert.rejects(query(neap, place.uri, 'select 1'), { message: text, code: '53400' })
  const { project_id, endpoint_id } = place
  const { status, body } = await send(neap, 'POST', `/projects/${project_id}/endpoints/${endpoint_id}/start`)
  assert.deepEqual([status, body.code], [422, 'LOGICAL_SIZE_LIMIT_EXCEEDED'])
  await limit(1000 * MIB)
  await query(neap, place.uri, 'truncate filled')
})

test('a branch of a large parent refuses writes as well', async () => {
  await limit(1 * MIB)
  const child = await branchOff(neap, place)
  await query(neap, child.uri, 'select 1')
  await refusing(child)
  await assert.rejects(query(neap, child.uri, fill(1)), { code: '53100' })
  await limit(0)
  await query(neap, child.uri, fill(1))
})

test('while the disk of the host is almost full, writes are refused and reads are not', async () => {
  const dataDir = neap.ready.data_dir
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir, env: { NEAP_DISK_RESERVE: '9000000' } })
  const other = await newProject(neap)
  await query(neap, place.uri, 'select 1')
  await refusing(place)
  await assert.rejects(query(neap, place.uri, fill(1)), {
    code: '53100',
    message: 'cannot execute INSERT in a read-only transaction: the disk of its host is almost full',
  })
  assert.equal((await query(neap, place.uri, 'select count(*)::int from filled')).length, 1)
  await assert.rejects(branchOff(neap, place), /The disk of its host is almost full/)
  const restore = neap.call('POST /projects/:project_id/branches/:branch_id/restore', {
    params: { project_id: place.project_id, branch_id: place.branch_id },
    body: { source_branch_id: place.branch_id, preserve_under_name: 'before' },
  })
  await assert.rejects(restore, /The disk of its host is almost full/)
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir })
  await accepting(place)
  await query(neap, place.uri, fill(1))
  await query(neap, other.uri, 'create table t ()')
})

test('a limit that is nearly used has a notice', async () => {
  await limit(Math.round((await sizeOf(place)) / 0.8))
  const dataDir = neap.ready.data_dir
  // The worker looks at once, and then every minute.
  await kill(neap.part('worker'))
  const { project_id, branch_id } = place
  const notice = await until('a notice', async () => {
    const { notices } = await neap.call('GET /notices', {})
    return notices.find((each) => each.branch_id === branch_id)
  })
  assert.deepEqual([notice.limit, notice.project_id, notice.host_id], ['logical_size_bytes', project_id, undefined])
  const { stdout } = await neapRun(['status'], envOf(dataDir))
  assert.match(stdout, new RegExp(`^(75|85) % of the size limit of ${branch_id} is used: [\\d.]+ of [\\d.]+ MiB`, 'm'))
})
