/** A host of tests whose stores lie on XFS, which shares blocks: mounted before the tests of a file, gone after. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { freshHost, PG_VERSION } from './local_host.ts'
import { mountXfs, withoutMounts } from './small_disk.ts'

const MEBIBYTES = 3_000

/** Returns the host, and for the `skip` of its tests why XFS cannot be mounted here. */
export function freshXfsHost() {
  const skip = withoutMounts() || (spawnSync('mkfs.xfs', ['-V']).error ? 'mkfs.xfs is not installed' : false)
  const local = freshHost()
  let unmount: (() => void) | undefined
  before(async () => {
    if (skip) return
    unmount = mountXfs(local.options.dataDir, join(local.base, 'image'), MEBIBYTES)
    await local.storage.prepare(PG_VERSION)
  })
  after(() => local.dispose(unmount))
  return { ...local, local, skip }
}
