import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { after, afterEach, before, test, type TestContext } from 'node:test'
import type pg from 'pg'
import { connect, query, without } from '../clients.ts'
import { send } from '../http.ts'
import { ifAway, leaveNothing, type Neap, newDataDir, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { branchOff, firstPlace, operationsOf, type Place, settled, suspend } from '../project.ts'
import { mountSmallDisk, type SmallDisk, withoutMounts } from '../small_disk.ts'

/*
 * Exhaustion of machine resources. Waiting operations report it, other work continues, and operations succeed when
 * resources are available again.
 */

const cannotMount = withoutMounts()
if (cannotMount) console.error(`NOT SEEN: full disks, since ${cannotMount}`)

/** The limit of open files of this Neap, low enough to be reached. */
const FILES = 300

const dataDir = newDataDir()
let disk: SmallDisk | undefined
let catalogDisk: SmallDisk | undefined
let neap: Neap
let place: Place
let firstKey: string | null

before(async () => {
  if (!cannotMount) {
    disk = mountSmallDisk(dataDir, 900)
    catalogDisk = mountSmallDisk(join(dataDir, 'catalog'), 300)
  }
  neap = await startNeap({ dataDir })
  firstKey = neap.ready.api_key
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select 7 as value')
})

afterEach(() => {
  disk?.drain()
  catalogDisk?.drain()
})

after(async () => {
  await neap?.end()
  await leaveNothing(dataDir, { keep: true })
  catalogDisk?.unmount()
  disk?.unmount()
  rmSync(dataDir, { recursive: true })
})

const kept = async (where = place) =>
  assert.deepEqual(await query(neap, where.uri, 'select value from kept'), [{ value: 7 }])

const runs = ({ branch_id }: Place) =>
  postmastersOf(dataDir).find(({ directory }) => directory.includes(`/${branch_id}/`))?.pid

const parts = () => (['api', 'worker', 'proxy'] as const).flatMap((name) => neap.parts(name))

/** Waits until an operation reports why it waits, and returns that message. */
const complaintOf = (id: string): Promise<string> =>
  until(`operation ${id} says what it lacks`, async () => {
    const params = { project_id: place.project_id, operation_id: id }
    const { operation } = await neap.call('GET /projects/:project_id/operations/:operation_id', { params })
    assert.notEqual(operation.status, 'finished')
    return operation.error ?? undefined
  })

const FULL = /^The disk of .* is full: make room there\./
/** Writes only WAL. */
const WRITE_200_MB = `select pg_logical_emit_message(false, '', repeat('x', 1000000)) from generate_series(1, 200)`

test(
  'on a full disk operations wait with the reason, sessions continue, and room resolves it',
  { skip: cannotMount },
  async () => {
    const asleep = await branchOff(neap, place)
    await suspend(neap, asleep)
    await kept()
    const running = parts()
    const params = { project_id: place.project_id }
    disk?.fill()
    const begun = [
      await neap.call('POST /projects/:project_id/branches', {
        params,
        body: { branch: { parent_id: place.branch_id } },
      }),
      await neap.call('POST /projects/:project_id/branches', {
        params,
        body: { branch: { parent_id: asleep.branch_id } },
      }),
    ]
    const operations = begun.flatMap((each) => each.operations)
    for (const { id } of operations) assert.match(await complaintOf(id), FULL)
    // A start needs a few pages, which it may find: it waits with the reason, or has them.
    const start = await neap.call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params: asleep })
    operations.push(...start.operations)
    await kept()
    disk?.drain()
    await neap.ended(operations)
    await kept(asleep)
    assert.deepEqual(parts(), running, 'no part ended')
  },
)

test(
  'a compute without room for its WAL ends and is detected; others serve, and it returns',
  { skip: cannotMount },
  async () => {
    const other = await branchOff(neap, place)
    await kept(other)
    await kept()
    const pid = runs(other)
    disk?.fill()
    await assert.rejects(query(neap, place.uri, WRITE_200_MB))
    await settled(neap, place, 'idle')
    const [end] = (await operationsOf(neap, place)).filter((operation) => operation.endpoint_id === place.endpoint_id)
    assert.deepEqual([end?.action, end?.status], ['suspend_compute', 'failed'])
    assert.match(end?.error ?? '', /ended without having been asked to/)
    await kept(other)
    assert.equal(runs(other), pid)
    disk?.drain()
    await kept()
  },
)

test('a full disk of the catalog refuses writes whole, and they resume with room', { skip: cannotMount }, async () => {
  const client = await connect(neap, place.uri)
  const rename = (name: string) => send(neap, 'PATCH', `/projects/${place.project_id}`, { body: { project: { name } } })
  const params = { project_id: place.project_id }
  const nameOf = async () => (await neap.call('GET /projects/:project_id', { params })).project.name
  let last = await nameOf()
  catalogDisk?.fill()
  for (let number = 0; ; number++) {
    const answer = await rename(`name ${number}`)
    if (answer.status === 503) {
      assert.match(answer.body.message ?? '', /catalog/)
      assert.ok(answer.headers.get('retry-after'))
      break
    }
    assert.equal(answer.status, 200, answer.body.message)
    last = `name ${number}`
  }
  assert.equal((await client.query('select value from kept')).rowCount, 1)
  catalogDisk?.drain()
  const found = await until('the catalog is back', () => nameOf().catch(ifAway))
  assert.equal(found, last)
  await until('it can be written to', async () => (await rename('at last')).status === 200)
  await client.query('select 1')
  await client.end()
  await suspend(neap, place)
  await kept()
})

test(
  'without free descriptors open connections work, new ones are refused, and room is used',
  { skip: without('prlimit') },
  async (t) => {
    await neap.end()
    neap = await startNeap({ dataDir, through: ['prlimit', `--nofile=${FILES}`] })
    await kept()
    await exhaustProxyDescriptors(t)
    await exhaustApiDescriptors(t)
  },
)

async function exhaustProxyDescriptors(t: TestContext): Promise<void> {
  const clients: pg.Client[] = []
  t.after(() => Promise.all(clients.map((client) => client.end())))
  let refusal: unknown
  while (refusal === undefined && clients.length < FILES)
    await connect(neap, place.uri).then(
      (client) => clients.push(client),
      (error: unknown) => (refusal = error),
    )
  assert.equal((refusal as pg.DatabaseError).code, '53300')
  assert.match(String(refusal), /The proxy has as many connections open as it may/)
  assert.ok(clients.length > 50)
  const pid = runs(place)
  for (const client of clients) assert.equal((await client.query('select value from kept')).rowCount, 1)
  await clients.pop()?.end()
  await until('there is room', () =>
    kept().then(
      () => true,
      () => undefined,
    ),
  )
  assert.equal(runs(place), pid)
}

async function exhaustApiDescriptors(t: TestContext): Promise<void> {
  const { hostname, port } = new URL(neap.ready.api_url)
  const sockets = Array.from({ length: FILES - 60 }, () => createConnection({ host: hostname, port: Number(port) }))
  t.after(() => sockets.forEach((socket) => socket.destroy()))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  const path = `/projects/${place.project_id}`
  const refused = await until('it is refused', async () => {
    const answer = await send(neap, 'GET', path, { key: firstKey })
    return answer.status === 503 && answer
  })
  assert.match(refused.body.message ?? '', /This API has \d+ connections open, as many as it may/)
  assert.ok(refused.headers.get('retry-after'))
  sockets.forEach((socket) => socket.destroy())
  await until('there is room', async () => (await send(neap, 'GET', path, { key: firstKey })).status === 200)
}
