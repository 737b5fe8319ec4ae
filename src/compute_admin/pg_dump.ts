import { execFile } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { promisify } from 'node:util'

/**
 * Paths where packages of Postgres install pg_dump, one per version: Debian, Red Hat, Homebrew, and built from source.
 */
const PLACES = [
  '/usr/lib/postgresql/*/bin/pg_dump',
  '/usr/pgsql-*/bin/pg_dump',
  '/opt/homebrew/opt/{postgresql,libpq}*/bin/pg_dump',
  '/usr/local/opt/{postgresql,libpq}*/bin/pg_dump',
  '/usr/local/pgsql/bin/pg_dump',
]

const LOOK_MS = 5_000

const run = promisify(execFile)

export interface PgDump {
  readonly path: string
  readonly version: number
}

/**
 * Finds the pg_dump for a server of that major version: the same version's, else the oldest newer one. A newer one
 * reads older servers, an older one refuses newer servers (Postgres manual, pg_dump, "Notes").
 * @param candidates programs to choose from, in the order of preference among equal versions
 */
export async function findPgDump(pgVersion: number, candidates?: readonly string[]): Promise<PgDump | undefined> {
  const found = await Promise.all((candidates ?? [...globSync(PLACES), ...(await onPath())]).map(versionOf))
  return found
    .filter((program) => program !== undefined)
    .filter(({ version }) => version >= pgVersion)
    .sort((one, other) => one.version - other.version)[0]
}

/** Programs found, by the major version of the server. */
const known = new Map<number, PgDump>()

/** As `findPgDump`, but searches again only if no program was found, or if it has been removed. */
export async function knownPgDump(pgVersion: number): Promise<PgDump | undefined> {
  const before = known.get(pgVersion)
  if (before && existsSync(before.path)) return before
  const found = await findPgDump(pgVersion)
  if (found) known.set(pgVersion, found)
  return found
}

async function onPath(): Promise<string[]> {
  const { stdout } = await run('sh', ['-c', 'command -v pg_dump'], { timeout: LOOK_MS }).catch(() => ({ stdout: '' }))
  return stdout.trim().startsWith('/') ? [stdout.trim()] : []
}

/** Returns undefined if the program is absent or does not state its version. */
async function versionOf(path: string): Promise<PgDump | undefined> {
  try {
    const { stdout } = await run(path, ['--version'], { timeout: LOOK_MS })
    const version = /^pg_dump \(PostgreSQL\) (\d+)/.exec(stdout)?.[1]
    return version === undefined ? undefined : { path, version: Number(version) }
  } catch {
    return undefined
  }
}
