import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { connect, query } from '../clients.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, postmastersOf, processesOf, until } from '../processes.ts'
import type { Place } from '../project.ts'
import { type CatalogServer, startCatalogServer, withoutServer } from './catalog_server.ts'

/*
 * Two hosts over one catalog: `neap up` on the first, a worker with a data directory of its own on the second. Each
 * worker makes the stores and runs the computes of its own host only.
 */

const skip = withoutServer
const first = newDataDir()
const second = newDataDir()
let server: CatalogServer
let catalog: pg.Client
let neap: Neap
let worker: ChildProcess

before(async () => {
  if (skip) return
  server = await startCatalogServer()
  catalog = new pg.Client({ connectionString: server.url })
  await catalog.connect()
  neap = await startNeap({ dataDir: first, env: { NEAP_CATALOG_URL: server.url }, args: ['--no-project'] })
  // Computes run as other users.
  chmodSync(second, 0o711)
  copyFileSync(join(first, 'secret.key'), join(second, 'secret.key'))
  worker = await startWorker()
})

after(async () => {
  if (skip) return
  await kill(...processesOf(second).map(({ pid }) => pid))
  await neap?.end()
  await catalog?.end()
  await server?.close()
  await leaveNothing(first)
  await leaveNothing(second)
})

/** Starts the worker of the second host, as its operator does. */
async function startWorker(): Promise<ChildProcess> {
  const child = spawnNeap(
    ['worker', '--data-dir', second],
    envOf(second, { NEAP_CATALOG_URL: server.url, NEAP_WORKER_METRICS_PORT: '0' }),
  )
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
  await until('the second worker', () => {
    assert.equal(child.exitCode, null, said)
    return said.includes('"msg":"ready"')
  })
  return child
}

const hostOf = (dataDir: string) => readFileSync(join(dataDir, 'host'), 'utf8').trim()
const storesIn = (dataDir: string) =>
  existsSync(join(dataDir, 'branches')) ? readdirSync(join(dataDir, 'branches')).sort() : []

async function rows<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
  return (await catalog.query<T>(text, values)).rows
}

async function storesOf(dataDir: string): Promise<string[]> {
  const found = await rows<{ id: string }>('select id from store where host_id = $1 order by id', [hostOf(dataDir)])
  return found.map(({ id }) => id)
}

async function newProject(): Promise<Place> {
  const { project, branch, endpoints, connection_uris, operations } = await neap.call('POST /projects', {
    body: { project: {} },
  })
  await neap.ended(operations)
  const uri = connection_uris[0]?.connection_uri ?? ''
  return { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0]?.id ?? '', uri }
}

async function isOn(dataDir: string, { branch_id }: Place): Promise<boolean> {
  return (await storesOf(dataDir)).includes(branch_id)
}

const places: Record<'first' | 'second', Place[]> = { first: [], second: [] }

test('new projects are placed on both hosts, and each worker serves only its own host', { skip }, async () => {
  assert.notEqual(hostOf(first), hostOf(second))
  // Placement is random: one of 20 projects comes to each host but once in a million runs.
  for (let number = 0; number < 20 && !(places.first.length && places.second.length); number++) {
    const place = await newProject()
    places[(await isOn(first, place)) ? 'first' : 'second'].push(place)
  }
  assert.ok(places.first.length > 0 && places.second.length > 0)
  for (const place of [...places.first, ...places.second])
    assert.deepEqual(await query(neap, place.uri, 'select 1 as one'), [{ one: 1 }])
  for (const dataDir of [first, second]) {
    assert.deepEqual(storesIn(dataDir), await storesOf(dataDir))
    const computes = await rows<{ store_id: string }>('select store_id from compute where host_id = $1', [
      hostOf(dataDir),
    ])
    assert.deepEqual([...new Set(computes.map(({ store_id }) => store_id))].sort(), storesIn(dataDir))
    assert.equal(postmastersOf(dataDir).length, storesIn(dataDir).length)
  }
})

test('a branch is created and wakes on the host of its parent', { skip }, async () => {
  const [parent] = places.second
  assert.ok(parent)
  const made = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: parent.project_id },
    body: { endpoints: [{ type: 'read_write' }] },
  })
  await neap.ended(made.operations)
  assert.ok(storesIn(second).includes(made.branch.id))
  assert.ok(!storesIn(first).includes(made.branch.id))
})

test('operations of a host without a worker wait; those of the other host proceed', { skip }, async () => {
  const [here] = places.first
  const [there] = places.second
  assert.ok(here && there)
  const exit = once(worker, 'exit')
  worker.kill('SIGKILL')
  await exit
  const suspend = ({ project_id, endpoint_id }: Place) =>
    neap.call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params: { project_id, endpoint_id } })
  const waiting = await suspend(there)
  const done = await suspend(here)
  await neap.ended(done.operations)
  const [{ status } = {}] = await rows<{ status: string }>('select status from operation where id = $1', [
    waiting.operations[0]?.id,
  ])
  assert.equal(status, 'scheduling')
  worker = await startWorker()
  await neap.ended(waiting.operations)
  assert.deepEqual(await query(neap, there.uri, 'select 2 as two'), [{ two: 2 }])
})

test('the end of a killed compute is detected by the worker of its host', { skip }, async () => {
  const [there] = places.second
  assert.ok(there)
  await query(neap, there.uri, 'select 1')
  const postmaster = postmastersOf(second).find(({ directory }) => directory.includes(`/${there.branch_id}/`))
  await kill(postmaster?.pid)
  await until('its end is on record', async () => {
    const [last] = await rows<{ end_reason: string | null }>(
      'select end_reason from compute where endpoint_id = $1 order by started_at desc limit 1',
      [there.endpoint_id],
    )
    return last?.end_reason === 'crash'
  })
  assert.deepEqual(await query(neap, there.uri, 'select 3 as three'), [{ three: 3 }])
})

/** Starts a worker that is refused, on a data directory with these files, and returns its log. */
async function refused(files: Record<string, string>): Promise<string> {
  const dataDir = newDataDir()
  chmodSync(dataDir, 0o711)
  copyFileSync(join(first, 'secret.key'), join(dataDir, 'secret.key'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dataDir, name), `${text}\n`)
  const { code, stderr } = await neapRun(
    ['worker', '--data-dir', dataDir],
    envOf(dataDir, { NEAP_CATALOG_URL: server.url, NEAP_WORKER_METRICS_PORT: '0' }),
  )
  assert.equal(code, 1, stderr)
  await leaveNothing(dataDir)
  return stderr
}

test('a worker with the disk of another installation, or of a host that lives, is refused', { skip }, async () => {
  const [there] = places.second
  assert.ok(there)
  const session = await connect(neap, there.uri)
  const endedBefore = await rows('select from compute where ended_at is not null')
  const foreign = await refused({ installation: '01234567-89ab-cdef-0123-456789abcdef 0 7' })
  assert.match(foreign, /belong to another installation .* name their own catalog/)
  assert.match(await refused({ host: hostOf(second) }), /Another worker lives as the host .* remove its file "host"/)
  assert.deepEqual((await session.query('select 4 as four')).rows, [{ four: 4 }])
  assert.equal((await rows('select from compute where ended_at is not null')).length, endedBefore.length)
  await session.end()
})

test('a worker whose host was taken over by another directory ends', { skip }, async () => {
  const exit = once(worker, 'exit')
  const silent = "heartbeat_at = clock_timestamp() - interval '1 minute'"
  await rows(`update host set place = 'elsewhere', ${silent} where id = $1`, [hostOf(second)])
  assert.deepEqual(await exit, [1, null])
  worker = await startWorker()
})

test('deleted projects are removed on their hosts', { skip }, async () => {
  for (const { project_id } of [...places.first, ...places.second])
    await neap.call('DELETE /projects/:project_id', { params: { project_id } })
  await until('no store is left', async () => (await rows('select from store')).length === 0)
  assert.deepEqual([...storesIn(first), ...storesIn(second)], [])
})
