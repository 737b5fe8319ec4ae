import type { Catalog } from '../catalog/catalog.ts'
import { KEYS_CHANGED, sessionName } from '../catalog/key_reader.ts'
import type { Secrets } from '../secrets/secrets.ts'

/** Reads the keys again whenever they were changed, and says in the catalog which ones this process has. Errors: the catalog is away. */
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
