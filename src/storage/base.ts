/** Bases: copies of a store's data directory at a moment, in the directory `bases` of its home, by their numbers. */
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readOrCreate, syncDirectory } from '../durable_file.ts'
import { isWalSegment } from '../postgres/data_directory.ts'
import { recoveryEnd, shutdownCheckpoint } from '../postgres/control_file.ts'
import { lsnText, nextSegment, segmentAt, segmentPosition } from '../postgres/wal.ts'
import { baseOf, unfinishedBaseOf } from './base_place.ts'
import { fillDataDirectory, type FillOptions } from './clone.ts'
import type { RunningParent } from './parent_session.ts'
import { removeSpares } from './spare.ts'

/** A base leads to any position from `lsn` on, with the WAL from `segment` on. */
export interface MadeBase {
  /** All commits before then are in it. */
  readonly started_at: string
  readonly lsn: string
  readonly segment: string
}

/** In a base: when it was begun. */
const sinceOf = (base: string): string => join(base, 'since')

export interface BaseOptions extends Omit<FillOptions, 'fence'> {
  readonly parent: RunningParent
}

/**
 * Makes a base of a store, which may be running. `pending`: call again. Errors: those of a copy.
 * @param now the time by the catalog
 */
export async function makeBase(
  home: string,
  { number, now }: { number: number; now: string },
  { parent, ...options }: BaseOptions,
): Promise<MadeBase | 'pending'> {
  const making = unfinishedBaseOf(home)
  const base = baseOf(home, number)
  if (!existsSync(base)) {
    // Not recursive: the home of a store that is removed meanwhile stays removed.
    await mkdir(making, { mode: 0o710 }).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    })
    await readOrCreate(sinceOf(making), 0o600, () => Buffer.from(now))
    if ((await fillDataDirectory({ home: making, from: home, parent, isBase: true }, options)) === 'pending')
      return 'pending'
    await mkdir(join(home, 'bases'), { recursive: true, mode: 0o700 })
    await rename(making, base)
    await syncDirectory(join(home, 'bases'))
  }
  try {
    const started_at = await readFile(sinceOf(base), 'utf8')
    return { ...(await readBase(join(base, 'pgdata'))), started_at }
  } catch (error) {
    await removeBase(home, number)
    throw error
  }
}

/** Removes all bases of a store, also one that is being made. */
export async function removeBases(home: string): Promise<void> {
  for (const path of [join(home, 'bases'), unfinishedBaseOf(home)]) await rm(path, { recursive: true, force: true })
  await removeSpares(home)
}

/** Removes a base, first its name: a copy of it that finds it by its name at its end has missed no file. */
export async function removeBase(home: string, number: number): Promise<void> {
  const base = baseOf(home, number)
  const removed = `${base}.removed`
  await rm(removed, { recursive: true, force: true })
  await rename(base, removed).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  })
  await rm(removed, { recursive: true, force: true })
  // Spares are looked after as long as there are bases.
  if ((await readdir(join(home, 'bases')).catch(() => [])).length === 0) await removeSpares(home)
}

type Reach = Pick<MadeBase, 'lsn' | 'segment'>

async function readBase(pgdata: string): Promise<Reach> {
  const end = await recoveryEnd(pgdata)
  if (end) return { lsn: lsnText(end.position), segment: segmentAt(end.timeline, end.position) }
  // A backup ends with a segment of its own; the WAL of a stopped server ends with its last checkpoint.
  if (existsSync(join(pgdata, 'backup_label'))) {
    const segment = (await readdir(join(pgdata, 'pg_wal'))).filter(isWalSegment).sort().at(-1)
    if (segment === undefined) throw new Error(`${pgdata} has no WAL`)
    return { lsn: lsnText(segmentPosition(nextSegment(segment))), segment }
  }
  return readCheckpoint(pgdata)
}

/** The last checkpoint of a stopped data directory, as a base. Errors: it was not stopped cleanly. */
export async function readCheckpoint(pgdata: string): Promise<Reach> {
  const last = await shutdownCheckpoint(pgdata)
  // After a crash Postgres recovers to the end of the WAL that it finds, past any target.
  if (!last) throw new Error(`${pgdata} was not stopped cleanly`)
  return { lsn: lsnText(last.position), segment: segmentAt(last.timeline, last.position) }
}
