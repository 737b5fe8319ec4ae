import { deepEqual, ok } from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'
import { mountXfs, withoutMounts } from '../../../test/small_disk.ts'

const CANNOT = withoutMounts() || (spawnSync('mkfs.xfs', ['-V']).error ? 'mkfs.xfs is not installed' : false)
const MEBIBYTES = 700
const local = freshHost()
const { dataDir } = local.options
let unmount: (() => void) | undefined

before(async () => {
  if (CANNOT) return
  unmount = mountXfs(dataDir, join(local.base, 'image'), MEBIBYTES)
  await local.storage.prepare(PG_VERSION)
})

after(() => local.dispose(unmount))

test(
  'Postgres shares the blocks of a copied database where the filesystem has reflinks',
  { skip: CANNOT },
  async () => {
    const branch = local.branch('xfs')
    await settled(() => local.storage.create(branch, local.next()))
    const { address } = await local.start(branch, local.next())
    deepEqual(await query(address, 'SHOW file_copy_method'), [{ file_copy_method: 'clone' }])
    await query(address, 'CREATE DATABASE original')
    await query(address, `CREATE TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 40000)`, {
      database: 'original',
    })
    await query(address, 'CHECKPOINT')
    const earlier = mebibytesUsed()
    await query(address, 'CREATE DATABASE copied TEMPLATE original STRATEGY file_copy')
    const added = mebibytesUsed() - earlier
    ok(added < 20, `a copy of 40 MiB added ${added}`)
    deepEqual(await query(address, 'SELECT count(*)::int FROM t', { database: 'copied' }), [{ count: 40_000 }])
    await settled(() => local.computes.stop(branch, local.next()))
  },
)

function mebibytesUsed(): number {
  execFileSync('sync', ['--file-system', dataDir])
  const { blocks, bfree, bsize } = statfsSync(dataDir)
  return ((blocks - bfree) * bsize) / 2 ** 20
}
