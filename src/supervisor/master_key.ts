import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { readRing } from '../secrets/ring.ts'

/** Sees that the master key can be used, or may be made since there is nothing yet. Errors: UsageError. */
export async function checkMasterKey({ secretFile, dataDir }: Config): Promise<void> {
  if ((await readRing(secretFile)) || !existsSync(join(dataDir, 'catalog/pgdata'))) return
  throw new UsageError(
    `The master key ${secretFile} is missing: put it back from a backup. If it is lost for good: npx neap secrets replace-lost-key`,
  )
}
