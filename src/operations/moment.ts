/*
 * How a moment of a branch is reached: from the newest base before it, by the WAL from there on. A clone goes on with
 * the WAL of its parent, so the history of a store is followed into that of its parent, and at last to the template:
 *
 *   template ──WAL──▶ base 1 ──WAL──▶ base 2 ──WAL──▶ now       (the parent)
 *                             └─WAL─▶ base 1 ──WAL──▶ now       (a clone: its bases, or base 1 of the parent)
 */
import type { Base, StoreHistory } from '../catalog/history.ts'
import { lsnPosition, segmentPosition } from '../postgres/wal.ts'
import type { Restoration } from '../storage/storage.ts'

/** A moment of a branch: after the last commit until then (RFC 3339), or before a position in its WAL. */
export type Target = Restoration['target']

/** The moment of a store. */
export interface StoreMoment {
  readonly store_id: string
  readonly target: Target
}

/** Whether a store had its branch's data at a moment already. */
export function isAlive({ created_at, first_segment }: StoreHistory, target: Target): boolean {
  if ('timestamp' in target) return Date.parse(created_at) <= Date.parse(target.timestamp)
  return first_segment !== null && segmentPosition(first_segment) <= (lsnPosition(target.lsn) ?? 0)
}

/** A base of a store, or the template of the first one. */
interface Origin {
  readonly base: Base | undefined
  /** The index of its store among the ancestors. */
  readonly depth: number
  readonly lsn: number
  readonly segment: string
  /** In milliseconds since 1970. */
  readonly startedAt: number
  readonly madeAt: number
}

/**
 * All that the history of a store begins with, the latest first.
 * @param ancestors the store and its ancestors, each followed by its parent
 */
function originsOf(ancestors: readonly StoreHistory[]): Origin[] {
  const origins: Origin[] = []
  let limit = Infinity
  for (const [depth, store] of ancestors.entries()) {
    const { bases, first_segment, is_chained, parent_id, created_at, begins_at, begins_lsn } = store
    // Of a part that is cut the store itself needs no moment any more.
    const isGone = ({ is_cut }: { is_cut: boolean }) => is_cut && depth === 0
    for (const base of bases.toReversed()) {
      const lsn = lsnPosition(base.lsn) ?? Infinity
      if (lsn > limit || isGone(base)) continue
      const times = { startedAt: Date.parse(base.started_at), madeAt: Date.parse(base.made_at) }
      origins.push({ base, depth, lsn, segment: base.segment, ...times })
    }
    if (first_segment === null || !is_chained || isGone(store)) return origins
    limit = segmentPosition(first_segment)
    if (parent_id !== null) continue
    const at = Date.parse(begins_at ?? created_at)
    const lsn = begins_lsn === null ? limit : (lsnPosition(begins_lsn) ?? limit)
    origins.push({ base: undefined, depth, lsn, segment: first_segment, startedAt: at, madeAt: at })
  }
  return origins
}

/** When the history of a store begins, in milliseconds since 1970; undefined before there is one. */
export function beginningOf(ancestors: readonly StoreHistory[]): number | undefined {
  return originsOf(ancestors).at(-1)?.madeAt
}

/** The position of the latest base in the history of a store, or of its template; undefined before there is one. */
export const latestOrigin = (ancestors: readonly StoreHistory[]): number | undefined => originsOf(ancestors)[0]?.lsn

/** Whether the history of a store leads to a position in its WAL. */
export function leadsTo(ancestors: readonly StoreHistory[], position: number): boolean {
  const first = ancestors[0]?.first_segment
  if (first == null || segmentPosition(first) > position) return false
  return originsOf(ancestors).some(({ base, lsn }) => !base || lsn <= position)
}

/** How a moment of a store is reached; undefined when its history does not reach back so far. */
export function planRestoration(ancestors: readonly StoreHistory[], target: Target): Restoration | undefined {
  const position = 'lsn' in target ? lsnPosition(target.lsn) : undefined
  const time = 'timestamp' in target ? Date.parse(target.timestamp) : 0
  const isBefore = ({ lsn, madeAt }: Origin) => (position === undefined ? madeAt <= time : lsn <= position)
  const isAfter = ({ lsn, startedAt }: Origin) => (position === undefined ? startedAt > time : lsn > position)
  const origins = originsOf(ancestors)
  const origin = origins.find(isBefore)
  const next = origins.findLast(isAfter)
  if (!origin) return undefined
  const stores = ancestors.slice(0, origin.depth + 1)
  return {
    target,
    base: origin.base && { storeId: stores[origin.depth]?.id ?? '', number: origin.base.number },
    stores: stores.map(({ id, first_segment }) => ({ id, first: first_segment ?? origin.segment })),
    from: segmentPosition(origin.segment),
    upto: next && segmentPosition(next.segment),
  }
}
