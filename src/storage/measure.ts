import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoreSize } from './storage.ts'

const LIMIT_MS = 3_000

/** Where the files of databases are, and in it those of queries (Postgres manual, "Database File Layout"). */
const DATABASES = 'base'
const TEMPORARY = 'pgsql_tmp'

/**
 * The size of a data directory, without following links. Counting ends after three seconds, since the tenant decides
 * how many files there are; those of databases are counted first.
 */
export async function measureDataDirectory(pgdata: string): Promise<StoreSize> {
  const deadline = performance.now() + LIMIT_MS
  const databases = join(pgdata, DATABASES)
  const ofDatabases = await measure(databases, deadline, (name) => name !== TEMPORARY)
  const others = await measure(pgdata, deadline, (name, directory) => directory !== pgdata || name !== DATABASES)
  const temporary = await measure(join(databases, TEMPORARY), deadline).catch(() => ({ bytes: 0, isWhole: true }))
  const isWhole = ofDatabases.isWhole && others.isWhole && temporary.isWhole
  return {
    bytes: isWhole ? ofDatabases.bytes + others.bytes + temporary.bytes : undefined,
    logicalBytes: ofDatabases.bytes,
  }
}

/** The bytes of all files in a directory tree that were counted by the deadline, and whether those are all. */
async function measure(
  top: string,
  deadline: number,
  enters: (name: string, directory: string) => boolean = () => true,
): Promise<{ bytes: number; isWhole: boolean }> {
  const unread = [top]
  let bytes = 0
  for (let next = unread.pop(); next !== undefined; next = unread.pop()) {
    for await (const entry of await opendir(next)) {
      if (performance.now() > deadline) return { bytes, isWhole: false }
      const path = join(next, entry.name)
      if (entry.isDirectory()) {
        if (enters(entry.name, next)) unread.push(path)
      }
      // A running server removes files meanwhile.
      else if (entry.isFile())
        bytes += await lstat(path).then(
          ({ size }) => size,
          () => 0,
        )
    }
  }
  return { bytes, isWhole: true }
}
