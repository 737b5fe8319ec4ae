/**
 * How far a recovery is, read from a data directory while its server replays: the WAL is a sequence of segments, each
 * named by its place in it (Postgres source, xlog_internal.h).
 */
import { closeSync, constants, fstatSync, openSync, opendirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { isWalSegment } from './data_directory.ts'
import { SEGMENT_BYTES, segmentPosition } from './wal.ts'

/** Where a checkpoint's redo position stands in pg_control, and a page's own position in its header. */
const REDO_OFFSET = 40
const PAGE_POSITION_OFFSET = 8
/** 512 GiB of WAL. A directory with more names is not read to its end: code in a compute could fill it without end. */
const MAX_NAMES = 2 ** 15
const NAMES_AT_ONCE = 1_024

/** The position from which a recovery replays; undefined when the control file cannot be read. */
export const redoPosition = (pgdata: string): number | undefined =>
  readPosition(pgdata, 'global/pg_control', REDO_OFFSET)

/**
 * The position at which the written WAL ends, rounded up to a segment; the end of `segment` where there is too much to
 * read. Segments beyond are prepared for use: their first page has an earlier position.
 */
export function writtenPosition(pgdata: string, segment: string): number {
  const names = segmentNames(pgdata)
    .filter((name) => name >= segment)
    .toSorted()
  let [written, unwritten] = [-1, names.length]
  while (unwritten - written > 1) {
    const middle = (written + unwritten) >> 1
    const name = names[middle] ?? ''
    if (readPosition(pgdata, `pg_wal/${name}`, PAGE_POSITION_OFFSET) === segmentPosition(name)) written = middle
    else unwritten = middle
  }
  return segmentPosition(names[written] ?? segment) + SEGMENT_BYTES
}

/** The names of the segments in `pg_wal`; of none where there is too much to read. */
export const segmentNames = (pgdata: string): string[] => readNames(join(pgdata, 'pg_wal')).filter(isWalSegment)

function readNames(directory: string): string[] {
  try {
    const names: string[] = []
    const opened = opendirSync(directory, { bufferSize: NAMES_AT_ONCE })
    try {
      for (let entry = opened.readSync(); entry; entry = opened.readSync())
        if (names.push(entry.name) > MAX_NAMES) return []
      return names
    } finally {
      opened.closeSync()
    }
  } catch {
    return []
  }
}

/** Reads only regular files: the server's own user can write there. */
function readPosition(pgdata: string, name: string, offset: number): number | undefined {
  let file: number
  try {
    file = openSync(join(pgdata, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
  try {
    const buffer = Buffer.alloc(8)
    const isRead = fstatSync(file).isFile() && readSync(file, buffer, 0, 8, offset) === 8
    return isRead ? Number(buffer.readBigUInt64LE()) : undefined
  } finally {
    closeSync(file)
  }
}
