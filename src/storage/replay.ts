/**
 * A copy of a base that is to become its store at a moment: its first start replays WAL up to there. The note
 * `recovery` in its home says so until then.
 */
import { closeSync, fchownSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../durable_file.ts'
import { segmentAt, SEGMENT_BYTES, segmentPosition, timelineOf } from '../postgres/wal.ts'
import type { CopyTarget } from './copy_tree.ts'
import { endOfWal, NO_EARLIER_TIMELINE, readSegment, readTimelineHistory } from './wal_archive.ts'

/** The moment at which a replay ends: after the last commit until then, or before this position. */
export type ReplayTarget = { readonly timestamp: string } | { readonly lsn: string }

/** Tells Postgres to recover (Postgres manual, "Archive Recovery"). */
export const RECOVERY_SIGNAL = 'recovery.signal'

export const signalRecovery = (target: CopyTarget): void => write(target, RECOVERY_SIGNAL, Buffer.alloc(0))

/** The task of a start that recovers; without a target it replays all WAL. */
export interface Recovery {
  readonly target?: ReplayTarget | undefined
  /** The position that is to be reached without a target. */
  readonly lsn?: string | undefined
  /** As the name of a segment begins. */
  readonly timeline: string
  /** The position of the last segment with WAL that is to be replayed. */
  readonly last: number
}

/** A store with a part of the WAL, and the segment with which that begins. */
export interface WalSource {
  readonly home: string
  readonly first: string
}

export interface ReplayPlan {
  readonly target: ReplayTarget
  /** The store itself, its parent, and so on. Each has the WAL up to where that of the one before it begins. */
  readonly sources: readonly WalSource[]
  /** The position of the first segment that is needed, and that of the last; undefined: of all that there are. */
  readonly from: number
  readonly upto: number | undefined
}

/** Puts the WAL of a plan into a copied data directory. Errors: a segment is gone. */
export async function placeWal(plan: ReplayPlan, target: CopyTarget): Promise<Recovery> {
  const { sources, from, upto = Infinity } = plan
  const [own] = sources
  if (!own) throw new Error('a replay needs WAL')
  const end = Math.min(await endOfWal(own.home, own.first), upto + SEGMENT_BYTES)
  const timeline = timelineOf(own.first)
  let isOneTimeline = true
  for (let position = from; position < end; position += SEGMENT_BYTES) {
    const source = sources.find(({ first }) => segmentPosition(first) <= position) ?? own
    const name = segmentAt(timelineOf(source.first), position)
    if (timelineOf(name) !== timeline) isOneTimeline = false
    const content = readSegment(source.home, name)
    if (!content) throw new Error(`The history has a gap: its WAL segment ${name} is gone.`)
    write(target, `pg_wal/${name}`, content)
    target.copied(content.length)
  }
  if (parseInt(timeline, 16) > 1) {
    const found = sources.map(({ home }) => readTimelineHistory(home, timeline)).find(Boolean)
    const history = found ?? (isOneTimeline ? NO_EARLIER_TIMELINE : undefined)
    if (!history) throw new Error(`The history of the timeline ${timeline} is gone.`)
    write(target, `pg_wal/${timeline}.history`, history)
  }
  signalRecovery(target)
  return { target: plan.target, timeline, last: end - SEGMENT_BYTES }
}

function write({ path, owner }: CopyTarget, name: string, content: Buffer): void {
  const file = openSync(join(path, name), 'w', 0o600)
  try {
    if (owner) fchownSync(file, owner.uid, owner.gid)
    for (let written = 0; written < content.length;) written += writeSync(file, content, written)
  } finally {
    closeSync(file)
  }
}

const noteOf = (home: string): string => join(home, 'recovery')

export const noteRecovery = (home: string, recovery: Recovery): Promise<void> =>
  replaceFile(noteOf(home), 0o600, Buffer.from(JSON.stringify(recovery)))

/** The task of the next start of a store; undefined for an ordinary start. */
export function notedRecovery(home: string): Recovery | undefined {
  try {
    return JSON.parse(readFileSync(noteOf(home), 'utf8')) as Recovery
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Notes the task of a store for a copy of it that is made before its first start. Returns whether it has one. */
export async function inheritRecovery(from: string, home: string): Promise<boolean> {
  const recovery = notedRecovery(from)
  if (recovery) await noteRecovery(home, recovery)
  else forgetRecovery(home)
  return recovery !== undefined
}

export const forgetRecovery = (home: string): void => rmSync(noteOf(home), { force: true })
