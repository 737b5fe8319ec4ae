import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { isWalSegment } from '../postgres/data_directory.ts'
import type { StoreSize } from './storage.ts'

const LIMIT_MS = 3_000

/** What is no data of its user (Postgres manual, "Database File Layout"). */
const WAL = 'pg_wal'
const TEMPORARY = 'pgsql_tmp'

/**
 * The size of a data directory, without following links. Counting ends after three seconds, since the tenant decides
 * how many files there are; data is counted first.
 */
export async function measureDataDirectory(pgdata: string): Promise<StoreSize> {
  const deadline = performance.now() + LIMIT_MS
  const data = await count(pgdata, deadline, (name) => name !== WAL && name !== TEMPORARY)
  const wal = await count(join(pgdata, WAL), deadline)
  const temporary = await count(join(pgdata, 'base', TEMPORARY), deadline).catch(() => ({ bytes: 0, isWhole: true }))
  return {
    bytes: data.bytes + wal.bytes + temporary.bytes,
    logicalBytes: data.bytes,
    isWhole: data.isWhole && wal.isWhole && temporary.isWhole,
  }
}

/**
 * The bytes of WAL that a copy made by the backup protocol needs to become consistent, to the segment. 0 for a data
 * directory that needs no backup_label any more.
 */
export async function measureReplay(pgdata: string): Promise<number> {
  const isCopy = await lstat(join(pgdata, 'backup_label')).then(
    () => true,
    () => false,
  )
  if (!isCopy) return 0
  let bytes = 0
  for await (const entry of await opendir(join(pgdata, WAL)))
    if (entry.isFile() && isWalSegment(entry.name)) bytes += (await lstat(join(pgdata, WAL, entry.name))).size
  return bytes
}

/** The bytes of all files in a directory tree that were counted by the deadline, and whether those are all. */
async function count(
  top: string,
  deadline: number,
  enters: (name: string) => boolean = () => true,
): Promise<{ bytes: number; isWhole: boolean }> {
  const unread = [top]
  let bytes = 0
  for (let next = unread.pop(); next !== undefined; next = unread.pop()) {
    // A running server removes files and directories meanwhile.
    const directory = await opendir(next).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' && next !== top) return []
      throw error
    })
    for await (const entry of directory) {
      if (performance.now() > deadline) return { bytes, isWhole: false }
      const path = join(next, entry.name)
      if (entry.isDirectory()) {
        if (enters(entry.name)) unread.push(path)
      } else if (entry.isFile())
        bytes += await lstat(path).then(
          ({ size }) => size,
          () => 0,
        )
    }
  }
  return { bytes, isWhole: true }
}
