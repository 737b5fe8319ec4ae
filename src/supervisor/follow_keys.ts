import type { Catalog } from '../catalog/catalog.ts'
import { KEYS_CHANGED, sessionName } from '../catalog/key_reader.ts'
import type { Secrets } from '../secrets/secrets.ts'

/**
 * Reloads the keys when they change, and publishes their revision in the catalog. Errors: the catalog is unavailable.
 */
export async function followKeys(
  name: string,
  catalog: Pick<Catalog, 'listen' | 'rename'>,
  secrets: Pick<Secrets, 'reload' | 'revision'>,
  onError: (error: unknown) => void,
): Promise<void> {
  async function read(): Promise<void> {
    await secrets.reload()
    await catalog.rename(sessionName(name, secrets.revision()))
  }
  await catalog.listen(KEYS_CHANGED, () => void read().catch(onError))
  // They may have changed since they were read.
  await read()
}
