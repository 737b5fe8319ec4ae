import { equal, rejects } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { join } from 'node:path'
import { freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { checkpointPosition } from './control_file.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

test('the position of the latest checkpoint is the one that Postgres tells', async () => {
  const branch = local.branch('controlled')
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  await query(address, 'create table t (n int)')
  await query(address, 'checkpoint')
  const [row] = await query(address, 'select checkpoint_lsn::text as position from pg_control_checkpoint()')
  equal(await checkpointPosition(join(local.home(branch), 'pgdata')), row?.['position'])
  equal(await storage.walPosition(branch), row?.['position'])
  await settled(() => computes.stop(branch, next()))
})

test('a directory without data is an error', async () => {
  await rejects(checkpointPosition('/nonexistent'), /ENOENT/)
})
