import type { Db } from '../catalog/catalog.ts'
import { installedPgVersions } from '../catalog/host.ts'
import { AppError } from '../errors.ts'
import { DEFAULT_PG_VERSION, PG_VERSIONS } from '../postgres/versions.ts'

/** The requested version of Postgres, or the default. Errors: NOT_ALLOWED (not supported or not installed). */
export async function requirePgVersion(db: Db, asked: number = DEFAULT_PG_VERSION): Promise<number> {
  if (!PG_VERSIONS.some((version) => version === asked))
    throw new AppError('NOT_ALLOWED', `pg_version is ${asked}; it takes ${PG_VERSIONS.join(', ')}.`)
  const installed = await installedPgVersions(db)
  if (installed && !installed.includes(asked))
    throw new AppError(
      'NOT_ALLOWED',
      `pg_version is ${asked}; installed are ${installed.join(', ')}. ` +
        `Install it (on Debian: postgresql-${asked}), and ask again in a minute.`,
    )
  return asked
}
