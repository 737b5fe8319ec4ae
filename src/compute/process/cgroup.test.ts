import { deepEqual, doesNotMatch, equal, match, ok, rejects } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled, SMALL } from '../../../test/local_host.ts'
import { until } from '../../../test/processes.ts'
import { childrenOf, cpuQuota, groupsOutside, memoryLimit } from '../../../test/control_groups.ts'
import { cgroups } from './cgroup.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())
const skip = (await computes.whyNoLimits()) ?? false

/** Counts in SQL for a while. */
const BUSY = `do $$ declare till timestamptz := clock_timestamp() + interval '1 second'; n bigint := 0; begin
  while clock_timestamp() < till loop n := n + 1; end loop; end $$`

test('all processes of a compute are in its groups', { skip }, async () => {
  const branch = local.branch('grouped')
  await settled(() => storage.create(branch, next()))
  const { pid } = await local.start(branch, next())
  for (const each of [pid, ...childrenOf(pid)]) deepEqual(groupsOutside(each), [], String(each))
  await settled(() => computes.stop(branch, next()))
})

test('a compute of 0.25 CU has a quarter of a core, and more after a resize', { skip }, async () => {
  const branch = local.branch('quarter')
  await settled(() => storage.create(branch, next()))
  const { id, address } = await local.start(branch, next())
  equal(await computes.resize(id, SMALL), undefined)
  const groups = cgroups(local.options.dataDir)
  const coresUsed = async () => {
    const first = groups.use(id)
    const began = performance.now()
    await Promise.all([query(address, BUSY), query(address, BUSY)])
    return (groups.use(id).cpuMicroseconds - first.cpuMicroseconds) / 1000 / (performance.now() - began)
  }
  const small = await coresUsed()
  ok(small < 0.32, `${small}`)
  equal(await computes.resize(id, { ...SMALL, cu: 1 }), undefined)
  const large = await coresUsed()
  ok(large > 1.3 * small, `${small} and ${large}`)
  await settled(() => computes.stop(branch, next()))
})

test('a compute that exceeds its memory limit ends alone, and the reason is on record', { skip }, async () => {
  const [greedy, other] = [local.branch('greedy'), local.branch('other')]
  for (const each of [greedy, other]) await settled(() => storage.create(each, next()))
  const { id, address, startedAt } = await local.start(greedy, next())
  const neighbour = await local.start(other, next())
  const fill = query(
    address,
    `do $$ declare a text := repeat('a', 850000000); b text := repeat('b', 850000000); begin end $$`,
  )
  await rejects(fill, /terminated|closed|57P02/)
  await until('the end of the compute', async () => (await computes.find(greedy)) === undefined)
  match(await computes.lastWords(greedy, { id, startedAt }), /at its memory limit of 1024 MiB; .*signal 9/)
  await query(neighbour.address, 'select 1')
  const again = await local.start(greedy, next())
  await query(again.address, 'select 1')
  for (const each of [greedy, other]) await settled(() => computes.stop(each, next()))
})

test(
  'a limit below the memory in use follows that memory, and says so; the CPU limit is lowered',
  { skip },
  async () => {
    const branch = local.branch('holding')
    await settled(() => storage.create(branch, next()))
    const { id, address } = await local.start(branch, next(), { cu: 0.5, maxCu: 0.5 })
    equal(await computes.resize(id, { ...SMALL, cu: 0.5 }), undefined)
    const holding = query(
      address,
      `do $$ declare a text := repeat('a', 700000000); b text := repeat('b', 700000000);
       begin perform pg_sleep(60); end $$`,
    )
    const groups = cgroups(local.options.dataDir)
    await until('the memory is taken', () => groups.use(id).anonBytes > 1.65e9)
    match((await computes.resize(id, SMALL)) ?? '', /follows what it holds: over 1024 MiB cannot be reclaimed/)
    equal(cpuQuota(local.options.dataDir, id), 25_000)
    // Not more than the 2 GiB that it had: a tenant would raise his limit by what he holds.
    equal(memoryLimit(local.options.dataDir, id), 2 * 2 ** 30)
    await query(address, `select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'`)
    await rejects(holding)
    await until('it fits', async () => (await computes.resize(id, SMALL)) === undefined)
    await settled(() => computes.stop(branch, next()))
  },
)

test('a host without control groups says why; what a tenant is told names no path of it', async () => {
  const groups = cgroups(local.options.dataDir, [])
  match(groups.missing ?? '', /without cpu/)
  doesNotMatch((await groups.limit('any', { cpus: 1, memoryBytes: 2 ** 30, processes: 100 })) ?? '/', /\//)
})
