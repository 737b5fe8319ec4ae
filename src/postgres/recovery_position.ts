/**
 * How far a recovery is, read from a data directory while its server replays: the WAL is a sequence of segments, each
 * named by its place in it (Postgres source, xlog_internal.h).
 */
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { isWalSegment } from './data_directory.ts'

const SEGMENT_BYTES = 2 ** 24
const SEGMENTS_PER_LOG = 2 ** 32 / SEGMENT_BYTES
/** Where a checkpoint's redo position stands in pg_control, and a page's own position in its header. */
const REDO_OFFSET = 40
const PAGE_POSITION_OFFSET = 8

/** The position at which a WAL segment begins. */
export function segmentPosition(name: string): number {
  return (parseInt(name.slice(8, 16), 16) * SEGMENTS_PER_LOG + parseInt(name.slice(16), 16)) * SEGMENT_BYTES
}

/** The position from which a recovery replays; undefined when the control file cannot be read. */
export const redoPosition = (pgdata: string): number | undefined =>
  readPosition(pgdata, 'global/pg_control', REDO_OFFSET)

/**
 * The position at which the written WAL ends, rounded up to a segment. Segments beyond are prepared for use: their
 * first page has an earlier position.
 */
export function writtenPosition(pgdata: string, segment: string): number {
  const names = readNames(join(pgdata, 'pg_wal')).filter((name) => name >= segment && isWalSegment(name))
  let [written, unwritten] = [-1, names.length]
  while (unwritten - written > 1) {
    const middle = (written + unwritten) >> 1
    const name = names[middle] ?? ''
    if (readPosition(pgdata, `pg_wal/${name}`, PAGE_POSITION_OFFSET) === segmentPosition(name)) written = middle
    else unwritten = middle
  }
  return segmentPosition(names[written] ?? segment) + SEGMENT_BYTES
}

function readNames(directory: string): string[] {
  try {
    return readdirSync(directory).sort()
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
