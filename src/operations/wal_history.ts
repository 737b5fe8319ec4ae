/*
 * The history of a store begins at its first start, with the slot that the start has made; without one, as in a
 * store of an earlier Neap, it begins now, with a base.
 */
import type { StoredBranch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { forgetHistory, listAncestors, listExpiredHistory, loseHistory, setChained } from '../catalog/history.ts'
import { noteSpaceChange } from '../catalog/space.ts'
import type { AdminSession } from '../compute_admin/session.ts'
import { dropEarlierWal, keepWal, keptSegment, readLsn } from '../compute_admin/wal_slot.ts'
import type { Config } from '../config.ts'
import type { WorkerContext } from '../context.ts'
import { segmentPosition } from '../postgres/wal.ts'
import type { StoreRef } from '../storage/storage.ts'
import { leadsTo } from './moment.ts'

type HistoryContext = Pick<WorkerContext, 'catalog' | 'storage' | 'log'>

/** Begins the history of a store whose compute runs. Returns its first segment. */
export async function beginHistory(
  { catalog, storage }: HistoryContext,
  session: AdminSession,
  { id, pgVersion }: Pick<StoreRef, 'id' | 'pgVersion'>,
): Promise<string> {
  const kept = await keptSegment(session)
  if (kept === undefined) {
    // Before there is a slot: later its absence until now would not be known.
    await setChained(catalog, id, false)
    const segment = await keepWal(session)
    await setChained(catalog, id, false, segment)
    return segment
  }
  const [own, ...ancestors] = await listAncestors(catalog, id)
  const isChained =
    own?.is_chained ??
    (own?.parent_id === null
      ? kept === (await storage.templateSegment(pgVersion))
      : leadsTo(ancestors, segmentPosition(kept)))
  const beginsLsn = isChained && own?.parent_id === null ? await readLsn(session) : undefined
  await setChained(catalog, id, isChained, kept, beginsLsn)
  return kept
}

/** Begins the history of a store anew. */
export async function restartHistory(
  context: HistoryContext,
  session: AdminSession,
  id: string,
  why: string,
): Promise<void> {
  const segment = await keepWal(session)
  await forgetBefore(context, id, segment)
  context.log.error({ store: id, segment, why }, 'the history of a branch begins anew')
}

/** Forgets all moments of a store from before now, and the WAL that leads to them: its data were masked or removed. */
export async function endHistory(
  context: HistoryContext,
  session: AdminSession,
  { store_id, first_segment }: StoredBranch,
): Promise<void> {
  const segment = await dropEarlierWal(session)
  // The first start of a new branch begins its history.
  if (first_segment !== null) await forgetBefore(context, store_id, segment)
}

async function forgetBefore({ catalog, storage }: HistoryContext, id: string, segment: string): Promise<void> {
  // The numbers of bases begin anew: the old ones must be gone.
  await storage.removeHistory(id, { base: 'all', from: undefined, before: segment })
  await catalog.transaction((tx: Db) => loseHistory(tx, id, segment))
}

/** Parts that are removed together: each may be as much data as a branch. */
const PARTS = 4

type ExpiryContext = Pick<WorkerContext, 'catalog' | 'hostId'> & {
  readonly storage: Pick<WorkerContext['storage'], 'removeHistory'>
  readonly config: Pick<Config, 'historyMaxMb'>
}

/**
 * Removes history past its retention, or over its limit: of one store, or of all of this host. Returns whether more is
 * left.
 */
export async function expireWal(context: ExpiryContext, storeId?: string): Promise<boolean> {
  const { catalog, storage, config, hostId } = context
  const rule = { mostBytes: config.historyMaxMb * 2 ** 20, storeId, limit: storeId === undefined ? PARTS : 1 }
  const parts = await listExpiredHistory(catalog, hostId, rule)
  for (const part of parts) {
    const { store_id, base, from_segment, before_segment } = part
    const freed = await storage.removeHistory(store_id, {
      base: base ?? undefined,
      from: from_segment ?? undefined,
      before: before_segment,
    })
    await forgetHistory(catalog, part, freed)
    await noteSpaceChange(catalog, store_id)
  }
  return parts.length > 0
}
