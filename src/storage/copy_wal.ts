import { closeSync } from 'node:fs'
import { SEGMENT_BYTES, segmentAt, segmentStart } from '../postgres/wal.ts'
import { type CopyTarget, copyOne, openBelow, type Source } from './copy_tree.ts'

const SEGMENT = { most: SEGMENT_BYTES }
/** Behind the end of the WAL of a server that ran, zeros take more room than a branch. */
const LIVE_SEGMENT = { ...SEGMENT, zeros: 2 ** 16 }
const HISTORY = { most: 2 ** 20 }

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
      if (!copyOne(wal, name, target, `pg_wal/${name}`, LIVE_SEGMENT))
        throw new Error(`the parent removed WAL that the copy needs (${name})`)
    }
    // The page of a checkpoint just after a restore is of the timeline before.
    copyHistory(wal, `${timeline}.history`, target)
  } finally {
    closeSync(wal.file)
  }
}

/** Copies a segment of an open `pg_wal` of a server that does not run, or returns false. */
export const copySegment = (wal: Source, name: string, target: CopyTarget): boolean =>
  copyOne(wal, name, target, `pg_wal/${name}`, SEGMENT)

/** Copies the history of a timeline of an open `pg_wal`, if it is there. */
export const copyHistory = (wal: Source, name: string, target: CopyTarget): boolean =>
  copyOne(wal, name, target, `pg_wal/${name}`, HISTORY)
