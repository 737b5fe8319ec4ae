import { equal, rejects } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { checkpointPosition, controlBytes, shutdownPosition } from './control_file.ts'

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
  await rejects(checkpointPosition('/nonexistent'), /is not there/)
})

test('a position beyond any WAL is an error', async () => {
  const pgdata = join(local.base, 'beyond')
  mkdirSync(join(pgdata, 'global'), { recursive: true })
  const control = Buffer.alloc(8192)
  control.writeUInt32LE(1, 16)
  const write = () => writeFileSync(join(pgdata, 'global/pg_control'), control)
  control.writeBigUInt64LE(0x3000028n, 32)
  write()
  equal(await shutdownPosition(pgdata), '0/3000028')
  control.fill(0xff, 32, 40)
  write()
  for (const read of [checkpointPosition, shutdownPosition]) await rejects(read(pgdata), /beyond any WAL/)
})

test('code in a compute cannot block a look at its control file, or lead it to another file', async (t) => {
  const [pgdata, other] = [join(local.base, 'hostile'), join(local.base, 'other')]
  mkdirSync(join(pgdata, 'global'), { recursive: true })
  writeFileSync(other, Buffer.alloc(64))
  symlinkSync(other, join(pgdata, 'global/pg_control'))
  await rejects(checkpointPosition(pgdata), /ELOOP/)
  const fifo = join(local.base, 'fifo')
  mkdirSync(join(fifo, 'global'), { recursive: true })
  execFileSync('mkfifo', [join(fifo, 'global/pg_control')])
  const writing = setTimeout(() => {
    // Lets a look that is blocked go on, and fail.
    closeSync(openSync(join(fifo, 'global/pg_control'), constants.O_RDWR | constants.O_NONBLOCK))
  }, 5_000)
  t.after(() => clearTimeout(writing))
  for (const read of [checkpointPosition, shutdownPosition, controlBytes]) await rejects(read(fifo), /is not a file/)
})
