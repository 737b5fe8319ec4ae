import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { newRing, readRing, writeRing } from '../secrets/ring.ts'
import { lockDataDir, updateState } from './data_dir.ts'
import { hasHadKey } from './master_key.ts'

/**
 * Creates a new master key when the old one is lost. Secrets under the old one are replaced later: passwords of stores
 * and of the catalog at their next start, passwords of roles when they are reset. Errors: UsageError.
 */
export async function replaceLostKey({ secretFile, dataDir }: Config): Promise<void> {
  if (!hasHadKey(dataDir))
    throw new UsageError(`There is no Neap in ${dataDir} that could have lost a key: name its data directory.`)
  const lock = await lockDataDir(dataDir)
  if (!lock) throw new UsageError(`Neap runs on ${dataDir}: end it first.`)
  try {
    if (await readRing(secretFile))
      throw new UsageError(`${secretFile} is there and whole. If it is another Neap's, move it away first.`)
    // Before the key, so that a new API key is shown in any case.
    updateState(dataDir, { isKeyDue: true })
    await writeRing(secretFile, newRing(true))
  } finally {
    await lock.release()
  }
}
