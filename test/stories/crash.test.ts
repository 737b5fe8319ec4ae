import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { connect, direct, query, without } from '../clients.ts'
import { copierOf } from '../local_host.ts'
import { controlPlane, ifAway, leaveNothing, type Neap, newDataDir, startNeap } from '../neap.ts'
import { kill, postmastersOf, remainingProcesses, until } from '../processes.ts'
import { computeOf, endpointOf, firstPlace, type Place, settled, suspend } from '../project.ts'
import { audit, openBank, startTransfers } from './bank.ts'

/*
 * All processes are killed with SIGKILL, together and one by one. Databases keep serving; killed processes are
 * restarted.
 */

const dataDir = newDataDir()
let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ dataDir })
  place = await firstPlace(neap)
  await openBank(neap, place.uri)
})

after(async () => {
  await neap?.end()
  await leaveNothing(dataDir)
})

const postmasters = () => postmastersOf(dataDir).map(({ pid }) => pid)
const catalogPid = () => postmastersOf(dataDir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))?.pid

/**
 * Runs `act` while a session through the proxy has an open transaction, and asserts that the session works before,
 * during and after.
 */
async function withoutDisturbing(act: () => Promise<void>): Promise<void> {
  const lost: Error[] = []
  const client = await connect(neap, place.uri, { lost: (error) => lost.push(error) })
  await client.query('begin; create temporary table seen (number int)')
  let over = false
  const acting = act().finally(() => (over = true))
  let number = 0
  while (!over) await client.query('insert into seen values ($1)', [number++])
  await acting
  const { rows } = await client.query<{ count: number }>('select count(*)::int from seen')
  assert.deepEqual(rows, [{ count: number }])
  await client.query('commit')
  await client.end()
  assert.deepEqual(lost, [])
}

/** Waits until the control plane accepts and executes a change. */
async function controlled(): Promise<void> {
  const params = { project_id: place.project_id, branch_id: place.branch_id }
  const body = { role: { name: `role_${Date.now()}` } }
  const key = 'POST /projects/:project_id/branches/:branch_id/roles'
  const { operations } = await until('an API that answers', () => neap.call(key, { params, body }).catch(ifAway))
  await neap.ended(operations)
}

test(
  'kill -9 of the whole control plane: databases keep serving and are adopted',
  { skip: without('pgbench') },
  async (t) => {
    const compute = await computeOf(neap, place)
    const catalog = catalogPid()
    const load = await startTransfers(neap, direct(place.uri, compute))
    t.after(() => load.stop())
    await neap.kill()
    assert.deepEqual(controlPlane(dataDir), [])
    const made = await load.made()
    await until('more transfers', async () => (await load.made()) > made)

    const { ready } = neap
    neap = await startNeap({ dataDir })
    // Each start prints a sign-in link of its own.
    const { console_url } = neap.ready
    assert.notEqual(console_url, ready.console_url)
    assert.deepEqual(neap.ready, { ...ready, console_url, api_key: null, pid: neap.process.pid })
    assert.equal((await computeOf(neap, place))?.pid, compute?.pid)
    assert.equal((await endpointOf(neap, place)).current_state, 'active')
    assert.equal(catalogPid(), catalog)
    const adopted = await load.made()
    await until('more transfers', async () => (await load.made()) > adopted)
    assert.equal(await load.stop(), undefined, 'pgbench did not notice')
    assert.ok((await audit(neap, place.uri)).consistent)
  },
)

test('kill -9 of the supervisor alone: its parts end, and the next start works', async () => {
  const compute = await computeOf(neap, place)
  await kill(neap.process.pid)
  await until('the end of the parts', () => controlPlane(dataDir).length === 0)
  neap = await startNeap({ dataDir })
  assert.equal((await computeOf(neap, place))?.pid, compute?.pid)
  await controlled()
})

for (const name of ['api', 'worker'] as const) {
  test(`kill -9 of ${name}: sessions through the proxy continue, and it restarts`, async () => {
    const killed = neap.part(name)
    await withoutDisturbing(async () => {
      await kill(killed)
      await controlled()
    })
    assert.notEqual(neap.part(name), killed)
    assert.match(neap.stderr(), new RegExp(`neap ${name} ended \\(SIGKILL\\); starting it again`))
  })
}

test('kill -9 of the proxies: their sessions end, and new connections are served', async () => {
  const lost = Promise.withResolvers<Error>()
  const client = await connect(neap, place.uri, { lost: lost.resolve })
  const compute = await computeOf(neap, place)
  await kill(...neap.parts('proxy'))
  // The supervisor owns the listening socket: new connections wait for the next proxy.
  const next = await connect(neap, place.uri)
  await lost.promise
  await client.end()
  await next.end()
  assert.equal((await computeOf(neap, place))?.pid, compute?.pid)
})

test('kill -9 of the catalog: sessions continue, and it restarts', async () => {
  const killed = catalogPid()
  await withoutDisturbing(async () => {
    await kill(killed)
    await until('a catalog', () => catalogPid() !== undefined)
    await controlled()
  })
  assert.notEqual(catalogPid(), killed)
  assert.match(neap.stderr(), /the catalog ended; starting it again/)
  assert.equal((await query(neap, place.uri, 'select 1')).length, 1)
})

test('kill -9 of a postmaster: the next connection starts it with all acknowledged rows', async () => {
  const lost = Promise.withResolvers<Error>()
  const client = await connect(neap, place.uri, { lost: lost.resolve })
  const killed = await computeOf(neap, place)
  await client.query(`create table acknowledged as select 'yes' as answer`)
  await kill(killed?.pid)
  await lost.promise
  await client.end().catch(() => {})
  assert.deepEqual(await query(neap, place.uri, 'select answer from acknowledged'), [{ answer: 'yes' }])
  await settled(neap, place, 'active')
  assert.notEqual((await computeOf(neap, place))?.pid, killed?.pid)
})

test('--leave-running keeps databases and catalog running, and the next start adopts them', async () => {
  await neap.end()
  neap = await startNeap({ dataDir, args: ['--leave-running'] })
  await query(neap, place.uri, 'select 1')
  const before_end = postmasters()
  assert.equal(before_end.length, 2)
  assert.equal(await neap.end('SIGTERM'), 0)
  assert.deepEqual(controlPlane(dataDir), [])
  assert.deepEqual(postmasters(), before_end)
  neap = await startNeap({ dataDir })
  assert.deepEqual(postmasters(), before_end)
  assert.equal((await endpointOf(neap, place)).current_state, 'active')
  await query(neap, place.uri, 'select 1')
})

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  test(`${signal} leaves no process, and the next start finds idle endpoints`, async () => {
    await query(neap, place.uri, 'select 1')
    assert.equal(await neap.end(signal), 0)
    assert.deepEqual(await remainingProcesses(dataDir), [])
    neap = await startNeap({ dataDir })
    assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  })
}

test('SIGINT during a copy leaves no process, and the next start creates the branch', async () => {
  await suspend(neap, place)
  // A frozen worker leaves time to start watching the directory of the copy.
  const worker = neap.part('worker') ?? assert.fail('no worker runs')
  process.kill(worker, 'SIGSTOP')
  const { project_id, branch_id } = place
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id },
    body: { branch: { parent_id: branch_id }, endpoints: [{ type: 'read_write' }] },
  })
  const home = join(dataDir, 'branches', branch.id)
  mkdirSync(home, { mode: 0o711 })
  const copier = copierOf(home)
  process.kill(worker, 'SIGCONT')
  const pid = await copier
  // A perl process takes the lock, then execs the copier.
  await until('the copier', () => !readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('perl'))
  process.kill(pid, 'SIGSTOP')
  assert.equal(await neap.end('SIGINT'), 0)
  assert.deepEqual(await remainingProcesses(dataDir), [])
  // The start of its compute waits for the copy.
  assert.doesNotMatch(neap.stderr(), /could not be suspended/)
  neap = await startNeap({ dataDir })
  await neap.ended(operations)
})

/** The process that tells the worker of ended computes. */
function watcherOf(worker: number): number {
  const children = readFileSync(`/proc/${worker}/task/${worker}/children`, 'utf8').trim().split(' ').map(Number)
  const isWatcher = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').endsWith('\0watch\0')
  return children.find(isWatcher) ?? 0
}

test('a crash is on record once, also when a client has started another compute before it was noticed', async () => {
  const crashes = async () => {
    const params = { project_id: place.project_id }
    const filter = { endpoint_id: place.endpoint_id, action: 'suspend_compute', status: 'failed', limit: 1000 } as const
    return (await neap.call('GET /projects/:project_id/operations', { params, query: filter })).operations
  }
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const earlier = (await crashes()).length
  const watcher = watcherOf(neap.part('worker') ?? 0)
  process.kill(watcher, 'SIGSTOP')
  await kill((await computeOf(neap, place))?.pid)
  await query(neap, place.uri, 'select 1')
  process.kill(watcher, 'SIGCONT')
  await until('the end is on record', async () => (await crashes()).length > earlier)
  await settled(neap, place, 'active')
  const found = await crashes()
  assert.equal(found.length, earlier + 1)
  assert.match(found[0]?.error ?? '', /ended without having been asked/)
})
