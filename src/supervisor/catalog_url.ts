import { openCatalog } from '../catalog/catalog.ts'
import { sql } from '../catalog/sql.ts'
import { messageOf, UsageError } from '../errors.ts'

/** Checks that the operator's catalog answers, before any change. Errors: UsageError, without the password. */
export async function checkCatalogUrl(url: string): Promise<void> {
  const catalog = openCatalog(url, 1, () => {})
  try {
    await catalog.row(sql`select 1`)
  } catch (error) {
    const reason = messageOf(error instanceof Error && error.cause ? error.cause : error)
    throw new UsageError(`The catalog cannot be reached (${reason}): see that it runs and that --catalog-url is right.`)
  } finally {
    await catalog.close()
  }
}
