import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { CATALOG_ADMIN } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import { AppError, UsageError } from '../errors.ts'
import { readRing } from '../secrets/ring.ts'
import { loadOrCreateSecrets, type Secrets } from '../secrets/secrets.ts'

/**
 * Runs `work` with a running Neap's master key and catalog. Errors: UsageError (there is no Neap, or it does not run).
 */
export async function withCatalog<T>(
  config: Config,
  work: (catalog: Catalog, secrets: Secrets) => Promise<T>,
): Promise<T> {
  if (!(await readRing(config.secretFile)))
    throw new UsageError(`There is no master key ${config.secretFile}: name the data directory of a Neap.`)
  const secrets = await loadOrCreateSecrets(config.secretFile)
  const embedded = { runtimeDir: config.runtimeDir, user: CATALOG_ADMIN, passwords: secrets.catalogPasswords } as const
  const catalog = openCatalog(config.catalogUrl ?? embedded, 2, () => {})
  try {
    return await work(catalog, secrets)
  } catch (error) {
    if (error instanceof AppError && error.code === 'UNAVAILABLE')
      throw new UsageError(`The catalog of ${config.dataDir} does not answer: start Neap first (npx neap up).`)
    if (!config.catalogUrl && error instanceof Error && 'code' in error && error.code === '28P01')
      throw new UsageError(
        `The key in ${config.secretFile} does not open the catalog of ${config.dataDir}: ` +
          'name the one that it is used with in NEAP_SECRET_FILE.',
      )
    throw error
  } finally {
    await catalog.close()
  }
}
