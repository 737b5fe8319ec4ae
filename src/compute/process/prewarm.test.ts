import { deepEqual, equal, ok } from 'node:assert/strict'
import { existsSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'
import { processesOf, until } from '../../../test/processes.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

const LARGE = { minCu: 1, maxCu: 1, cu: 1 }
const BUFFERED = `select count(*)::int as blocks from pg_buffercache where relfilenode = pg_relation_filenode('read')`

async function newBranch(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  const listed = join(local.home(branch), 'pgdata/autoprewarm.blocks')
  const stop = () => settled(() => computes.stop(branch, next()))
  /** As if the machine had been restarted. */
  const forgetStart = () => utimesSync(join(local.home(branch), 'server'), 0, 0)
  return { branch, listed, stop, forgetStart }
}

test('a compute reads the blocks of its last run ahead after a restart of its machine, and only then', async () => {
  const { branch, listed, stop, forgetStart } = await newBranch('warm')
  const first = await local.start(branch, next(), LARGE)
  await query(first.address, 'create extension pg_buffercache')
  await query(first.address, `create table read as select repeat('x', 500) from generate_series(1, 20000)`)
  await stop()
  ok(existsSync(listed))

  const second = await local.start(branch, next(), LARGE)
  ok(!existsSync(listed))
  await query(second.address, 'select count(*) from read')
  const [read] = await query<{ blocks: number }>(second.address, BUFFERED)
  ok(read && read.blocks > 1000)
  await stop()

  forgetStart()
  const third = await local.start(branch, next(), LARGE)
  await until('its blocks are read', async () => {
    const [now] = await query<{ blocks: number }>(third.address, BUFFERED)
    return now?.blocks === read.blocks
  })
})

test('a small compute and one without clients read and list nothing', async () => {
  const { branch, listed, stop, forgetStart } = await newBranch('small')
  const libraries = 'show shared_preload_libraries'
  const { address } = await local.start(branch, next())
  deepEqual(await query(address, libraries), [{ shared_preload_libraries: 'pg_stat_statements' }])
  await stop()
  ok(!existsSync(listed))
  await local.start(branch, next(), LARGE)
  // A server that stops before this process has begun lists no blocks.
  const isLeader = ({ command }: { command: string }) => command.includes('autoprewarm leader')
  await until('blocks are to be listed', async () => processesOf(local.home(branch)).some(isLeader))
  await stop()
  ok(existsSync(listed))

  forgetStart()
  const unserved = await local.start(branch, next(), { ...LARGE, serves: false })
  deepEqual(await query(unserved.address, libraries), [{ shared_preload_libraries: 'pg_stat_statements' }])
  await stop()
  equal(existsSync(listed), true)
})
