import { closeSync, constants } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { recoveryEnd } from '../postgres/control_file.ts'
import { isWalSegment } from '../postgres/data_directory.ts'
import { openBelow, openDirectory, openPath, type Source } from './copy_tree.ts'
import type { StoreSize } from './storage.ts'

const LIMIT_MS = 3_000

/** What is no data of its user (Postgres manual, "Database File Layout"). */
const WAL = 'pg_wal'
const TEMPORARY = 'pgsql_tmp'

/** Each level is held open. Postgres nests less deep; files that code in a compute nests deeper are not counted. */
const MAX_DEPTH = 32

/** Code in a compute can make files of 8 EiB without blocks. Sums of such sizes must be numbers of the catalog. */
export const MAX_BYTES = 2 ** 50

interface Counted {
  readonly bytes: number
  readonly isWhole: boolean
}

/**
 * The size of a data directory. Counting ends after three seconds, since the tenant decides how many files there are;
 * data is counted first. As in a copy, each name is opened relative to its directory and no link is followed: code in
 * the compute may exchange them meanwhile.
 */
export async function measureDataDirectory(pgdata: string): Promise<StoreSize> {
  const deadline = performance.now() + LIMIT_MS
  const top = openDirectory(pgdata)
  try {
    const data = await count(top, deadline, (name) => name !== WAL && name !== TEMPORARY)
    const wal = await countIn(top, [WAL], deadline)
    const temporary = await countIn(top, ['base', TEMPORARY], deadline)
    return {
      bytes: Math.min(MAX_BYTES, data.bytes + wal.bytes + temporary.bytes),
      logicalBytes: Math.min(MAX_BYTES, data.bytes),
      isWhole: data.isWhole && wal.isWhole && temporary.isWhole,
    }
  } finally {
    closeSync(top.file)
  }
}

/**
 * The bytes of WAL that a copy of a running server needs to become consistent, to the segment. 0 for a data
 * directory that needs no backup_label any more.
 */
export async function measureReplay(pgdata: string): Promise<number> {
  const isCopy = await lstat(join(pgdata, 'backup_label')).then(
    () => true,
    () => false,
  )
  if (!isCopy) return 0
  const end = await recoveryEnd(pgdata)
  if (end) return end.position - end.redo
  let bytes = 0
  for await (const entry of await opendir(join(pgdata, WAL)))
    if (entry.isFile() && isWalSegment(entry.name)) bytes += (await lstat(join(pgdata, WAL, entry.name))).size
  return bytes
}

/** Counts a directory by its place below an open one; absent ones count as empty. */
async function countIn(directory: Source, [name = '', ...rest]: readonly string[], deadline: number): Promise<Counted> {
  const below = openBelow(directory, name, constants.O_DIRECTORY)
  if (!below) return { bytes: 0, isWhole: true }
  try {
    return rest.length > 0 ? await countIn(below, rest, deadline) : await count(below, deadline)
  } finally {
    closeSync(below.file)
  }
}

/** The bytes of all files below an open directory that were counted by the deadline, and whether those are all. */
async function count(
  directory: Source,
  deadline: number,
  enters: (name: string) => boolean = () => true,
  depth = 0,
): Promise<Counted> {
  if (depth > MAX_DEPTH) return { bytes: 0, isWhole: false }
  let bytes = 0
  let isWhole = true
  for await (const entry of await opendir(openPath(directory))) {
    if (performance.now() > deadline) return { bytes, isWhole: false }
    // A running server removes files and directories meanwhile.
    if (entry.isFile())
      bytes += await lstat(join(openPath(directory), entry.name)).then(
        ({ size }) => size,
        () => 0,
      )
    const isEntered = entry.isDirectory() && enters(entry.name)
    const below = isEntered ? openBelow(directory, entry.name, constants.O_DIRECTORY) : undefined
    if (!below) continue
    try {
      const inside = await count(below, deadline, enters, depth + 1)
      bytes += inside.bytes
      isWhole &&= inside.isWhole
    } finally {
      closeSync(below.file)
    }
  }
  return { bytes, isWhole }
}
