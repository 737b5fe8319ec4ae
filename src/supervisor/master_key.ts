import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { readRing } from '../secrets/ring.ts'

/** Whether there is a Neap that has had a key: its catalog, or branches where the catalog is the operator's. */
export const hasHadKey = (dataDir: string): boolean =>
  existsSync(join(dataDir, 'catalog/pgdata')) || existsSync(join(dataDir, 'branches'))

/** Sees that the master key can be used, or may be made since there is nothing yet. Errors: UsageError. */
export async function checkMasterKey({ secretFile, dataDir }: Config): Promise<void> {
  if ((await readRing(secretFile)) || !hasHadKey(dataDir)) return
  throw new UsageError(
    `The master key ${secretFile} is missing: put it back from a backup. If it is lost for good: npx neap secrets replace-lost-key`,
  )
}
