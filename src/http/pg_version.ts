import { AppError } from '../errors.ts'

const OLDEST_PG_VERSION = 15
export const NEWEST_PG_VERSION = 18

/** Errors: NOT_ALLOWED for a version of Postgres that computes do not have. */
export function requirePgVersion(version: number = NEWEST_PG_VERSION): void {
  if (version < OLDEST_PG_VERSION || version > NEWEST_PG_VERSION)
    throw new AppError(
      'NOT_ALLOWED',
      `pg_version is ${version}; it takes ${OLDEST_PG_VERSION} to ${NEWEST_PG_VERSION}.`,
    )
}
