import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { UsageError } from '../errors.ts'
import type { Owner } from './layout.ts'

/** The uids of a host's servers: `first` is the embedded catalog's, the others are given to stores. */
export interface UidRange {
  readonly first: number
  readonly last: number
}

interface UidSettings {
  readonly dataDir: string
  /** As "FIRST-LAST". */
  readonly uids: string | undefined
}

const RANGE_SIZE = 2 ** 18

/**
 * The uids of this host's servers; undefined unless Neap runs as root. By default one of 4096 ranges of 2^18 from 2^30
 * on, chosen by the path of the data directory, so that two of one machine rarely share it. They need no passwd
 * entries.
 */
export function uidRange({ dataDir, uids }: UidSettings): UidRange | undefined {
  if (process.getuid?.() !== 0) return undefined
  const [first = 0, last = 0] = uids?.split('-').map(Number) ?? []
  if (uids) return { first, last }
  const place = createHash('sha256').update(dataDir).digest().readUInt16BE(0) >> 4
  const begin = 2 ** 30 + place * RANGE_SIZE
  return { first: begin, last: begin + RANGE_SIZE - 1 }
}

/** The owner of the embedded catalog. No store has its uid. */
export function catalogOwner(settings: UidSettings): Owner | undefined {
  const range = uidRange(settings)
  return range && { uid: range.first, gid: range.first }
}

/** Errors: UsageError, if a user of this machine has a uid of the range: computes would run as that user. */
export async function requireUnusedUids({ first, last }: UidRange): Promise<void> {
  const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n')
  for (const [name, , uid] of lines.map((line) => line.split(':')))
    if (Number(uid) >= first && Number(uid) <= last)
      throw new UsageError(
        `The user ${name} has the uid ${uid}, one of those that computes run as (${first}-${last}): ` +
          'name a range without users in NEAP_UIDS.',
      )
}
