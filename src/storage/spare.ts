/**
 * Spares: clones of files that stay as they are, made before one is asked for. The time of a clone grows with the
 * extents of its files, of which a branch has one for each page after long random updates; a spare is renamed. A base
 * has some in its directory, and a store at rest in its home: the next clone of either takes one (clone.pl, copier.ts).
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { controlBytes } from '../postgres/control_file.ts'

/** The most spares that a directory has. */
const MAX_SPARES = 8

/** A spare of a base or of a store's data, by its number. */
export const spareOf = (directory: string, number = 1): string =>
  join(directory, number === 1 ? 'spare' : `spare.${number}`)

/** The places of all spares of a base or of a store's data. */
export const sparesOf = (directory: string): string[] =>
  Array.from({ length: MAX_SPARES }, (_, index) => spareOf(directory, index + 1))

/** The spare that is being made. */
export const unfinishedSpareOf = (directory: string): string => join(directory, 'spare.making')

const CONTROL = 'global/pg_control'

const controlOf = (directory: string): string => join(directory, 'pgdata', CONTROL)

/** A spare that may be taken; undefined when there is none. */
export const findSpare = (directory: string): string | undefined =>
  sparesOf(directory).find((spare) => existsSync(controlOf(spare)))

/** Whether a spare has the data of its source. Each run of a server writes another control file. */
export async function isCurrent(spare: string, source: string): Promise<boolean> {
  const [then, now] = await Promise.all(
    [spare, source].map((place) => controlBytes(join(place, 'pgdata')).catch(() => undefined)),
  )
  return then !== undefined && now !== undefined && then.equals(now)
}

/** Removes the spares of a base or of a store's data, also one that is being made. */
export async function removeSpares(directory: string): Promise<void> {
  for (const path of [...sparesOf(directory), unfinishedSpareOf(directory)]) await discardSpare(path)
}

/** The control file goes first: a spare without one is not taken. */
export async function discardSpare(path: string): Promise<void> {
  await rm(controlOf(path), { force: true })
  await rm(path, { recursive: true, force: true })
}

/** Renames a spare of a base to a new path. Returns false if the base has no spare. */
export function takeSpare(base: string, place: string): boolean {
  for (let spare = findSpare(base); spare !== undefined; spare = findSpare(base)) {
    try {
      renameSync(join(spare, 'pgdata'), place)
    } catch (error) {
      // Another clone has taken it.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
      throw error
    }
    if (existsSync(join(place, CONTROL))) return true
    // It was being removed.
    rmSync(place, { recursive: true, force: true })
  }
  return false
}
