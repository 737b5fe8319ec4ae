import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { readRing } from '../secrets/ring.ts'

/** Whether this Neap has had a key: it has a catalog, or branches when the catalog is the operator's. */
export const hasHadKey = (dataDir: string): boolean =>
  existsSync(join(dataDir, 'catalog/pgdata')) || existsSync(join(dataDir, 'branches'))

/** Checks that the master key is usable, or may be created because there is no data yet. Errors: UsageError. */
export async function checkMasterKey({ secretFile, dataDir }: Config): Promise<void> {
  if ((await readRing(secretFile)) || !hasHadKey(dataDir)) return
  throw new UsageError(
    `The master key ${secretFile} is missing: put it back from a backup. If it is lost for good: ` +
      'npx neap secrets replace-lost-key',
  )
}
