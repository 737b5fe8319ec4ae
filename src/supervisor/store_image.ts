import { chownSync, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { growImageOf, trimImageOf, whileMounted } from '../storage/image/change.ts'
import { initImage } from '../storage/image/init.ts'
import { openImage } from '../storage/image/open.ts'
import { reportStores, type StorageReport } from '../storage/report.ts'
import { lockDataDir, makeDirectories } from './data_dir.ts'

export type { StorageReport } from '../storage/report.ts'
export type { StoreSpace } from '../storage/space.ts'

/**
 * Makes an image for the stores of a data directory on which no Neap runs, also root for that of another user. Returns
 * its size. Errors: UsageError.
 */
export async function initStorage(
  { dataDir, runtimeDir }: Config,
  bytes: number | undefined,
  say: (step: string) => void,
): Promise<number> {
  if (!existsSync(dataDir)) makeDirectories(dataDir, runtimeDir)
  const { uid, gid } = statSync(dataDir)
  const lock = await lockDataDir(dataDir)
  if (!lock) throw new UsageError(`Neap runs on ${dataDir}: end it first. Branches are moved while none is in use.`)
  try {
    chownSync(join(dataDir, 'up.lock'), uid, gid)
    return await initImage(dataDir, bytes, say)
  } finally {
    await lock.release()
  }
}

/** Mounts the image, as for an ordinary user's Neap. Returns a warning, if there is one. Errors: UsageError. */
export const mountStorage = ({ dataDir }: Config): Promise<string | undefined> => openImage(dataDir)

/** Gives the image this size, while Neap runs or not. Errors: UsageError. */
export const growStorage = ({ dataDir }: Config, bytes: number): Promise<void> => growImageOf(dataDir, bytes)

/** Gives all but `keep` bytes of the image's free room back to the disk below. Returns how many. Errors: UsageError. */
export const trimStorage = ({ dataDir }: Config, keep: number): Promise<number> => trimImageOf(dataDir, keep)

/** How stores are cloned, and the space of each, measured now. Errors: UsageError. */
export const reportStorage = ({ dataDir, imageMaxMb }: Config): Promise<StorageReport> =>
  whileMounted(dataDir, () => reportStores(dataDir, imageMaxMb === undefined ? undefined : imageMaxMb * 2 ** 20))
