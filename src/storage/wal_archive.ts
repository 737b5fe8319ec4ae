/**
 * The archived WAL of a store: its complete segments, compressed, in the directory `wal` of its home. The rest is
 * in `pg_wal`, where a replication slot keeps it.
 */
import { closeSync, constants, fstatSync, readFileSync, readSync, statSync } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { constants as zlib, zstdCompress, zstdDecompressSync } from 'node:zlib'
import { replaceFile } from '../durable_file.ts'
import { isWalSegment } from '../postgres/data_directory.ts'
import { writtenPosition } from '../postgres/recovery_position.ts'
import { nextSegment, SEGMENT_BYTES, segmentPosition, timelineOf } from '../postgres/wal.ts'
import { openBelow, openDirectory, type Source } from './copy_tree.ts'

/** The segments that one call archives. */
const AT_ONCE = 8

/** WAL compresses to a third or less at the fastest level, at 400 MB/s. */
const FASTEST = { params: { [zlib.ZSTD_c_compressionLevel]: 1 } }

const archiveOf = (home: string): string => join(home, 'wal')
const archivedPath = (home: string, name: string): string => join(archiveOf(home), `${name}.zst`)

/** The result of an archival. */
export interface ArchivedWal {
  /** The last segment that was archived, if one was, and the bytes that it took. */
  readonly last: string | undefined
  readonly bytes: number
  /** A segment that was to be archived is gone. */
  readonly isMissing: boolean
}

/**
 * Archives complete segments from `from` on, durably. May be repeated, and while the server runs. Errors: the system's.
 */
export async function archiveWal(home: string, from: string): Promise<ArchivedWal> {
  const end = writtenPosition(join(home, 'pgdata'), from)
  let [last, bytes]: [string | undefined, number] = [undefined, 0]
  if (segmentPosition(from) + SEGMENT_BYTES >= end) return { last, bytes, isMissing: false }
  await mkdir(archiveOf(home), { recursive: true, mode: 0o700 })
  let name = from
  for (let count = 0; count < AT_ONCE && segmentPosition(name) + SEGMENT_BYTES < end; count++) {
    const size = archivedSize(home, name) ?? (await archiveSegment(home, name))
    if (size === undefined) return { last, bytes, isMissing: true }
    bytes += size
    last = name
    name = nextSegment(name)
  }
  return { last, bytes, isMissing: false }
}

/** The bytes of an archived segment: a catalog that is restored from a backup knows of fewer. */
const archivedSize = (home: string, name: string): number | undefined =>
  statSync(archivedPath(home, name), { throwIfNoEntry: false })?.size

/** Archives a segment. Returns its bytes; undefined when it is gone. */
async function archiveSegment(home: string, name: string): Promise<number | undefined> {
  const content = readLiveSegment(home, name)
  if (!content) return undefined
  const compressed = await promisify(zstdCompress)(content, FASTEST)
  await replaceFile(archivedPath(home, name), 0o600, compressed)
  return compressed.length
}

/** A whole segment from a store's `pg_wal`, or else from its archive; undefined when it is in neither. */
export function readSegment(home: string, name: string): Buffer | undefined {
  const live = readLiveSegment(home, name)
  if (live) return live
  try {
    return zstdDecompressSync(readFileSync(archivedPath(home, name)))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** The position up to which a store has WAL on the timeline of its segment `first`, rounded up to a segment. */
export async function endOfWal(home: string, first: string): Promise<number> {
  const live = writtenPosition(join(home, 'pgdata'), first)
  const archived = (await archivedNames(home)).filter((name) => timelineOf(name) === timelineOf(first))
  return Math.max(live, ...archived.map((name) => segmentPosition(name) + SEGMENT_BYTES))
}

/** The history of a timeline (Postgres manual, "Timelines"), which the server of a store keeps in `pg_wal`. */
export const readTimelineHistory = (home: string, timeline: string): Buffer | undefined =>
  readLive(home, `${timeline}.history`, (size) => size < 2 ** 20)

/**
 * The history of a timeline where a store lacks it, as clones of an earlier Neap do. Postgres wants a file, and needs
 * its content only where WAL of an earlier timeline is replayed.
 */
export const NO_EARLIER_TIMELINE = Buffer.from('# no WAL of an earlier timeline is needed\n')

/** Removes the archived segments from one position on and before another. Returns their bytes. */
export async function removeArchived(home: string, from: number, before: number): Promise<number> {
  let bytes = 0
  for (const name of await archivedNames(home)) {
    if (segmentPosition(name) < from || segmentPosition(name) >= before) continue
    bytes += (await stat(archivedPath(home, name))).size
    await rm(archivedPath(home, name), { force: true })
  }
  return bytes
}

async function archivedNames(home: string): Promise<string[]> {
  const names = await readdir(archiveOf(home)).catch(() => [])
  return names.flatMap((name) => (name.endsWith('.zst') && isWalSegment(name.slice(0, -4)) ? [name.slice(0, -4)] : []))
}

const readLiveSegment = (home: string, name: string): Buffer | undefined =>
  readLive(home, name, (size) => size === SEGMENT_BYTES)

/**
 * Reads a file of `pg_wal`, which may belong to a compromised server. Undefined when it is no file of the expected
 * size, or when Postgres has meanwhile given it another name to use it again.
 */
function readLive(home: string, name: string, isExpected: (size: number) => boolean): Buffer | undefined {
  const opened: Source[] = []
  const open = (source: Source | undefined): Source | undefined => {
    if (source) opened.push(source)
    return source
  }
  try {
    const pgdata = open(openDirectory(join(home, 'pgdata'))) as Source
    const wal = open(openBelow(pgdata, 'pg_wal', constants.O_DIRECTORY))
    const file = wal && open(openBelow(wal, name))
    if (!file) return undefined
    const found = fstatSync(file.file)
    if (!found.isFile() || !isExpected(found.size)) return undefined
    const content = Buffer.alloc(found.size)
    // Of the size that was checked: its server's user may change it meanwhile.
    if (readSync(file.file, content, 0, content.length, 0) < content.length) return undefined
    const again = open(openBelow(wal, name))
    return again && fstatSync(again.file).ino === found.ino ? content : undefined
  } finally {
    for (const { file } of opened) closeSync(file)
  }
}
