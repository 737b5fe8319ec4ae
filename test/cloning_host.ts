/** A host of tests whose stores lie on a filesystem that shares blocks: mounted before its tests, gone after. */
import { join } from 'node:path'
import { after, before } from 'node:test'
import { segmentPosition } from '../src/postgres/wal.ts'
import type { MadeBase } from '../src/storage/base.ts'
import type { Restoration, Storage, StoreRef } from '../src/storage/storage.ts'
import { freshHost, PG_VERSION } from './local_host.ts'
import { mountFilesystem, withoutFilesystems } from './small_disk.ts'

const MEBIBYTES = 3_000

/** Returns the host, and for the `skip` of its tests why it cannot be mounted here. */
export function freshCloningHost(kind: 'xfs' | 'btrfs') {
  const skip = withoutFilesystems(kind)
  const local = freshHost()
  let unmount: (() => void) | undefined
  before(async () => {
    if (skip) return
    unmount = mountFilesystem(kind, local.options.dataDir, join(local.base, 'image'), MEBIBYTES)
    await local.storage.prepare(PG_VERSION)
  })
  after(() => local.dispose(unmount))
  return { ...local, local, skip }
}

/** Makes a base of a running store. */
export async function makeBase(storage: Storage, store: StoreRef, number: number): Promise<MadeBase> {
  for (;;) {
    const made = await storage.makeBase(store, { number, now: new Date().toISOString() })
    if (made !== 'pending') return made
  }
}

/** How a store of that base is restored to a time. */
export const fromBase = ({ id }: StoreRef, number: number, { segment }: MadeBase, timestamp: string): Restoration => ({
  target: { timestamp },
  base: { storeId: id, number },
  stores: [{ id, first: segment }],
  from: segmentPosition(segment),
  upto: undefined,
})
