import { closeSync, constants, fchownSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { SEGMENT_BYTES, segmentAt, segmentStart } from '../postgres/wal.ts'
import { type CopyTarget, copyOne, openBelow, type Source } from './copy_tree.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

const CHUNK_BYTES = 2 ** 16
const CHUNK = Buffer.allocUnsafe(CHUNK_BYTES)
const ZEROS = Buffer.alloc(CHUNK_BYTES)

/** A part of the WAL of one timeline: positions of its beginning and its end. */
interface WalPart {
  readonly timeline: string
  readonly from: number
  readonly end: number
}

/** Copies the segments that hold a part of the WAL, and the history of its timeline. Errors: a segment is not there. */
export function copyWal(source: Source, target: CopyTarget, { timeline, from, end }: WalPart): void {
  const wal = openBelow(source, 'pg_wal')
  if (!wal) throw new Error('the parent has no pg_wal')
  try {
    for (let position = segmentStart(from); position < end; position += SEGMENT_BYTES) {
      const name = segmentAt(timeline, position)
      const isThere = target.reflink ? copyOne(wal, name, target, `pg_wal/${name}`) : copySegment(wal, name, target)
      if (!isThere) throw new Error(`the parent removed WAL that the copy needs (${name})`)
    }
    // The page of a checkpoint just after a restore is of the timeline before.
    copyOne(wal, `${timeline}.history`, target, `pg_wal/${timeline}.history`)
  } finally {
    closeSync(wal.file)
  }
}

/** Copies a segment without its zeros: behind the end of the WAL they take more room than a branch. */
function copySegment(wal: Source, name: string, { path, owner }: CopyTarget): boolean {
  const opened = openBelow(wal, name)
  if (!opened) return false
  const copy = openSync(join(path, 'pg_wal', name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    if (!fstatSync(opened.file).isFile()) throw new Error(`the parent's WAL ${name} is not a file`)
    if (owner) fchownSync(copy, owner.uid, owner.gid)
    let position = 0
    // Code in a compute can make it any size.
    for (let length; position < SEGMENT_BYTES && (length = readSync(opened.file, CHUNK)) > 0; position += length) {
      const isEmpty = CHUNK.compare(ZEROS, 0, length, 0, length) === 0
      for (let written = isEmpty ? length : 0; written < length;)
        written += writeSync(copy, CHUNK, written, length - written, position + written)
    }
    ftruncateSync(copy, position)
    return true
  } finally {
    closeSync(copy)
    closeSync(opened.file)
  }
}
