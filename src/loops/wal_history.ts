/*
 * Keeps the history of running computes: archives their complete WAL segments, lets Postgres remove those, and makes a
 * base whenever so much WAL has come since the last one that a restore would replay too much. The last WAL of a compute
 * that has stopped is archived after its next start; until then it is read where it lies.
 */
import { isHostShort, type KeptStore, listKeptStores, setArchived } from '../catalog/history.ts'
import { type AdminSession, withAdminSession } from '../compute_admin/session.ts'
import { releaseWal } from '../compute_admin/wal_slot.ts'
import type { Config } from '../config.ts'
import type { WorkerContext } from '../context.ts'
import { beginHistory, expireWal, restartHistory } from '../operations/wal_history.ts'
import { nextSegment, segmentPosition } from '../postgres/wal.ts'
import { createBaseMaker } from './bases.ts'
import { type Loop, startPeriodic } from './periodic.ts'
import { createRounds } from './rounds.ts'

const EVERY_MS = 10_000
/** Stores that are kept beside each other: a frozen compute answers only by its time-out. */
const PLACES = 16
/** So long a store is left alone whose compute did not answer. */
const RETRY_MS = 60_000
const MIB = 2 ** 20

export function startWalHistoryLoop(context: WorkerContext): Loop {
  const { catalog, hostId, log } = context
  const bases = createBaseMaker(context)
  /** Until when stores are left alone. */
  const retryAt = new Map<string, number>()
  const offer = createRounds(PLACES, keep)

  async function keep(store: KeptStore): Promise<void> {
    try {
      const archived = await archive(context, store)
      if (archived !== undefined) bases.consider(store, archived)
    } catch (error) {
      // It has ended meanwhile, or is damaged.
      log.warn({ err: error, store: store.id }, 'could not keep the history of a branch')
      retryAt.set(store.id, performance.now() + RETRY_MS)
    }
  }

  const round = async (): Promise<void> => {
    if (await isHostShort(catalog, hostId)) await expireWal(context)
    await bases.goOn()
    const stores = await listKeptStores(catalog, hostId)
    const running = new Set(stores.map(({ id }) => id))
    bases.retain(running)
    for (const [id, due] of retryAt) if (!running.has(id) || due <= performance.now()) retryAt.delete(id)
    offer(stores.filter(({ id }) => !retryAt.has(id)))
  }
  return startPeriodic(EVERY_MS, round, (error) => log.warn({ err: error }, 'could not keep the history of branches'))
}

/**
 * The segment from which on Postgres is to keep the archived WAL as well; undefined: none of it. The limit is for a
 * store without later bases.
 */
function neededFrom({ needed_segment: segment }: KeptStore, last: string, { historyMb }: Config): string | undefined {
  if (segment === null) return undefined
  const bytes = segmentPosition(last) - segmentPosition(segment)
  return bytes >= 0 && bytes < 3 * historyMb * MIB ? segment : undefined
}

/** Archives the WAL of a running store. Returns the position up to which it is; undefined when its history restarts. */
async function archive(context: WorkerContext, store: KeptStore): Promise<number | undefined> {
  const { catalog, storage, secrets, config } = context
  const inSession = <T>(work: (session: AdminSession) => Promise<T>): Promise<T> => {
    const address = { host: store.host, port: store.port, store: store.id }
    return withAdminSession(address, secrets.stores, { purpose: 'history' }, work)
  }
  const begin = (session: AdminSession) => beginHistory(context, session, { id: store.id, pgVersion: store.pg_version })
  const restart = (why: string) => inSession((session) => restartHistory(context, session, store.id, why))
  const first = store.first_segment ?? (await inSession(begin))
  let from = store.archived_segment === null ? first : nextSegment(store.archived_segment)
  for (;;) {
    const { last, bytes, isMissing } = await storage.archiveWal(store, from)
    const release = (upto: string) => inSession((session) => releaseWal(session, upto))
    const isKept =
      !isMissing && (last === undefined || (await release(neededFrom(store, last, config) ?? nextSegment(last))))
    if (!isKept) {
      await restart('WAL was lost')
      return undefined
    }
    if (last === undefined) return segmentPosition(from)
    from = nextSegment(last)
    const kept = await setArchived(catalog, store.id, last, bytes)
    // Without bases, which it can prevent, no part of it expires.
    if (kept > 2 * config.historyMaxMb * MIB && !(await expireWal(context, store.id))) {
      await restart('it is over its limit, and no base could be made')
      return undefined
    }
  }
}
