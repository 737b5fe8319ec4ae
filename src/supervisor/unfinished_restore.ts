/** The note of a restore that is not complete, in the data directory, with the part that it restores. */
import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../durable_file.ts'
import { UsageError } from '../errors.ts'

/** The part that is restored; by default all that the latest series has. */
export interface Selection {
  /** A series of backups; without it the latest. */
  readonly series?: string | undefined
  /** A project, by id or name. */
  readonly project?: string | undefined
  /** A branch, by id or name. */
  readonly branch?: string | undefined
  /** The moment to go back to. RFC 3339. */
  readonly at?: string | undefined
}

const noteIn = (dataDir: string): string => join(dataDir, 'backup/restoring')

export const isUnfinished = (dataDir: string): boolean => existsSync(noteIn(dataDir))

/** Errors: UsageError, if a restore of a data directory is not complete. */
export function requireRestored(dataDir: string): void {
  if (isUnfinished(dataDir))
    throw new UsageError(
      `The restore of ${dataDir} is not complete: run npx neap restore again, or remove that directory.`,
    )
}

/**
 * Notes that a restore begins, or goes on with the one that was interrupted. Returns its selection. Errors: UsageError,
 * if that was another one.
 */
export async function beginRestore(dataDir: string, selection: Selection): Promise<Selection> {
  if (!isUnfinished(dataDir)) {
    await noteSelection(dataDir, selection)
    return selection
  }
  const begun = JSON.parse(await readFile(noteIn(dataDir), 'utf8')) as Selection
  // The series may have been chosen since.
  const isSame = JSON.stringify({ series: begun.series, ...defined(selection) }) === JSON.stringify(defined(begun))
  if (!isSame && Object.values(selection).some((value) => value !== undefined))
    throw new UsageError(
      `A restore of ${dataDir} is not complete. To go on with it, leave out --series, --project, --branch and --at; ` +
        'to begin another, remove that directory.',
    )
  return begun
}

/** Notes the selection that an interrupted restore goes on with. */
export const noteSelection = (dataDir: string, selection: Selection): Promise<void> =>
  replaceFile(noteIn(dataDir), 0o600, Buffer.from(JSON.stringify(selection)))

const defined = (selection: Selection): Selection => JSON.parse(JSON.stringify(selection)) as Selection

export const endRestore = (dataDir: string): Promise<void> => rm(noteIn(dataDir))
