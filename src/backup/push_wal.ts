import { statSync } from 'node:fs'
import { join } from 'node:path'
import { nextSegment, segmentAt, SEGMENT_BYTES, segmentPosition, timelineOf } from '../postgres/wal.ts'
import { endOfWal, readSegment, readTimelineHistory } from '../storage/wal_archive.ts'
import type { Repository } from './repository.ts'
import { pushWalFile } from './stanza.ts'
import { pushWalEnd, writtenPages } from './wal_end.ts'

/** Segments per call. */
const AT_ONCE = 16

/** The WAL of a store in the repository. */
export interface PushedWal {
  /** The last complete segment that is there; null: not even the first after the base. */
  readonly segment: string | null
  /** Up to where it has WAL; null while that is not known. */
  readonly lsn: string | null
  /** The state of the end that was written last: it changes with any write. */
  readonly mark: string
}

export type Pushed = (PushedWal & { readonly isWhole: boolean }) | 'missing'

/**
 * Writes new WAL of a store to the repository, also while its server runs. `missing`: a segment is gone.
 * @param home the directory of the store
 * @param first the segment from which on the repository is to have all
 * @returns the WAL there now; not whole when there is more
 */
export async function pushWal(
  repository: Repository,
  { id, home, first }: { readonly id: string; readonly home: string; readonly first: string },
  before: PushedWal,
): Promise<Pushed> {
  const read_at = new Date().toISOString()
  const end = await endOfWal(home, first)
  const timeline = timelineOf(first)
  let [name, segment] = [before.segment === null ? first : nextSegment(before.segment), before.segment]
  for (let count = 0; segmentPosition(name) + SEGMENT_BYTES < end; count++) {
    if (count === AT_ONCE) return { segment, lsn: null, mark: '', isWhole: false }
    const content = readSegment(home, name)
    if (!content) return 'missing'
    if (name === first && parseInt(timeline, 16) > 1) await pushTimeline(repository, id, home, timeline)
    await pushWalFile(repository, id, name, content)
    segment = name
    name = nextSegment(name)
  }
  const last = segmentAt(timeline, end - SEGMENT_BYTES)
  const mark = `${last} ${String(statSync(join(home, 'pgdata/pg_wal', last), { throwIfNoEntry: false })?.mtimeMs)}`
  if (mark === before.mark) return { segment, lsn: before.lsn, mark, isWhole: true }
  const content = readSegment(home, last)
  if (!content) return 'missing'
  const written = writtenPages(last, content)
  await pushWalEnd(repository, id, { segment: last, read_at, ...written })
  return { segment, lsn: written.lsn, mark, isWhole: true }
}

async function pushTimeline(repository: Repository, id: string, home: string, timeline: string): Promise<void> {
  const history = readTimelineHistory(home, timeline)
  if (history) await pushWalFile(repository, id, `${timeline}.history`, history)
}
