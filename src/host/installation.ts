import { join } from 'node:path'
import { readIfExists, replaceFile } from '../durable_file.ts'
import { UsageError } from '../errors.ts'

/** The state of the catalog that a data directory has seen last. */
export interface InstallationNote {
  /** The id of the installation that its stores belong to. */
  readonly id: string
  readonly epoch: number
  /** The heartbeats of this host that the catalog has counted. */
  readonly beats: number
}

/** The note that makes the next start take the data directory over into whichever installation the catalog is of. */
export const ADOPT = 'adopt'

const fileIn = (dataDir: string): string => join(dataDir, 'installation')

/** Reads the note of a data directory; undefined before it has one. Errors: UsageError. */
export async function readInstallation(dataDir: string): Promise<InstallationNote | typeof ADOPT | undefined> {
  const text = (await readIfExists(fileIn(dataDir)))?.toString('utf8').trim()
  if (text === undefined || text === ADOPT) return text
  const [, id, epoch, beats] = /^([0-9a-f-]{36}) (\d+) (\d+)$/.exec(text) ?? []
  if (id === undefined)
    throw new UsageError(
      `${fileIn(dataDir)} does not say which installation this data directory belongs to. ` +
        'If it is that of the catalog: npx neap catalog adopt',
    )
  return { id, epoch: Number(epoch), beats: Number(beats) }
}

/** Replaces the note durably. */
export async function noteInstallation(dataDir: string, note: InstallationNote | typeof ADOPT): Promise<void> {
  const text = note === ADOPT ? note : `${note.id} ${note.epoch} ${note.beats}`
  await replaceFile(fileIn(dataDir), 0o600, Buffer.from(`${text}\n`))
}
