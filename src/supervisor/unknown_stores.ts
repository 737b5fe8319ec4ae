import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { listUnknownStores } from '../catalog/store.ts'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { ADOPT, noteInstallation } from '../host/installation.ts'
import { homeOf, layoutOf } from '../host/layout.ts'
import { withCatalog } from '../rotation/with_catalog.ts'
import { storedIds } from '../storage/remove.ts'

/** A store in a data directory that the catalog does not know. */
export interface UnknownStore {
  readonly id: string
  readonly directory: string
  readonly changed_at: string
}

/** The stores in the data directory of a running Neap that its catalog does not know. Errors: UsageError. */
export async function findUnknownStores(config: Config): Promise<UnknownStore[]> {
  const layout = layoutOf(config)
  const ids = await withCatalog(config, async (catalog) => listUnknownStores(catalog, await storedIds(layout)))
  return ids.flatMap((id) => {
    const directory = homeOf(layout, id)
    const found = statSync(directory, { throwIfNoEntry: false })
    return found ? [{ id, directory, changed_at: found.mtime.toISOString() }] : []
  })
}

/** Has the next start take a data directory over into its catalog's installation. Errors: UsageError. */
export async function adoptDataDir({ dataDir }: Config): Promise<void> {
  if (!existsSync(join(dataDir, 'host')))
    throw new UsageError(`There is no host in ${dataDir}: name the data directory of a Neap.`)
  await noteInstallation(dataDir, ADOPT)
}
