import assert, { deepEqual, equal, match } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { childrenOf, groupsOutside } from '../../../test/control_groups.ts'
import { freshHost, PG_VERSION, query, settled, SMALL } from '../../../test/local_host.ts'
import { kill, until } from '../../../test/processes.ts'
import { stopReplay } from '../../../test/stopped_replay.ts'
import { notedServer } from './server_note.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())
const isLimited = (await computes.whyNoLimits()) === undefined

test('a start tells how far a recovery is, and goes on with it', async () => {
  const branch = local.branch('replays')
  await settled(() => storage.create(branch, next()))
  const { address, pid } = await local.start(branch, next())
  await query(address, 'checkpoint')
  for (let turn = 0; turn < 25; turn++)
    await query(
      address,
      `select count(pg_logical_emit_message(false, 'filler', repeat('a', 1000000))) from generate_series(1, 16)`,
    )
  await query(address, 'create table kept (n int); insert into kept values (1)')
  await kill(pid)

  const replaying = stopReplay(() => notedServer(local.home(branch))?.pid)
  const starting = computes.start(branch, SMALL, next())
  const first = (await replaying) ?? assert.fail('the replay was not seen')
  const fence = next()
  equal(await starting, 'pending')
  // Some are forked before the server is moved there.
  const processes = () => [first, ...childrenOf(notedServer(local.home(branch))?.pid ?? 0)]
  if (isLimited)
    await until('all are in the groups of the compute', () => processes().flatMap(groupsOutside).length === 0)
  const told = await computes.readProgress(branch)
  match(told, /^Postgres recovers after a crash: \d+ of \d{3} MiB of its log are replayed$/)
  equal(await computes.readProgress(branch), told)
  equal(await computes.start(branch, SMALL, fence), 'pending')

  process.kill(first, 'SIGCONT')
  await until('an advance', async () => (await computes.readProgress(branch)) !== told)
  deepEqual(await query((await local.start(branch, next())).address, 'select n from kept'), [{ n: 1 }])
  await settled(() => computes.stop(branch, next()))
})
