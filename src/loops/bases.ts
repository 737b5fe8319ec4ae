import { insertBase, type KeptStore, listAncestors, nextBase } from '../catalog/history.ts'
import type { WorkerContext } from '../context.ts'
import { latestOrigin } from '../operations/moment.ts'
import { expireWal } from '../operations/wal_history.ts'

/** Bases that are made beside each other, of one project one: each is a copy of a whole branch. */
const PLACES = 4
/**
 * A base that takes longer gives its place to others: suspends of its compute may interrupt it again and again. Its
 * copy goes on, and is taken up later.
 */
const PATIENCE_MS = 600_000
/** After that, and after a base that could not be made, for want of room for example. */
const RETRY_MS = 600_000
const MIB = 2 ** 20

interface BeingMade {
  readonly store: KeptStore
  readonly since: number
}

/** Makes the bases that are due. */
export function createBaseMaker(context: WorkerContext) {
  const { catalog, storage, config, log } = context
  /** The position of the latest base of a store, as far as it was looked up, for this beginning of its history. */
  const latest = new Map<string, { readonly beginning: string; readonly origin: number }>()
  const retryAt = new Map<string, number>()
  const making = new Map<string, BeingMade>()

  async function isDue(store: KeptStore, position: number): Promise<boolean> {
    const beginning = `${store.first_segment} ${store.is_chained}`
    const known = latest.get(store.id)
    const origin = known?.beginning === beginning ? known.origin : latestOrigin(await listAncestors(catalog, store.id))
    if (origin === undefined) return true
    latest.set(store.id, { beginning, origin })
    const written = position - origin
    if (written < config.historyMb * MIB) return false
    // Where a base takes as much room as its branch, WAL of as much is the lesser cost.
    return (await storage.cloneMode()) !== 'copy' || written >= (store.bytes ?? 0)
  }

  function stepAside(id: string): void {
    making.delete(id)
    retryAt.set(id, performance.now() + RETRY_MS)
  }

  async function make({ store, since }: BeingMade): Promise<void> {
    try {
      const next = await nextBase(catalog, store.id)
      if (!next) {
        making.delete(store.id)
        return
      }
      const made = await storage.makeBase(store, next)
      if (made === 'pending') {
        if (performance.now() - since > PATIENCE_MS) stepAside(store.id)
        return
      }
      await insertBase(catalog, store.id, { number: next.number, ...made })
      latest.delete(store.id)
      making.delete(store.id)
      while (await expireWal(context, store.id));
    } catch (error) {
      log.warn({ err: error, store: store.id }, 'could not make a base of a branch')
      stepAside(store.id)
    }
  }

  const hasPlace = ({ project_id }: KeptStore): boolean =>
    making.size < PLACES && [...making.values()].every(({ store }) => store.project_id !== project_id)

  async function begin(store: KeptStore, position: number): Promise<void> {
    if (!hasPlace(store) || (retryAt.get(store.id) ?? 0) > performance.now()) return
    // Another may have taken the place during the look.
    if (!(await isDue(store, position)) || !hasPlace(store)) return
    const begun = { store, since: performance.now() }
    making.set(store.id, begun)
    await make(begun)
  }

  return {
    /** Looks after the bases that are being made. */
    async goOn(): Promise<void> {
      await Promise.all([...making.values()].map(make))
    },
    /** Forgets all other stores. */
    retain(ids: ReadonlySet<string>): void {
      for (const known of [latest, retryAt]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
    },
    /** Begins a base of a store with WAL up to this position, if one is due. */
    consider(store: KeptStore, position: number): void {
      begin(store, position).catch((error: unknown) =>
        log.warn({ err: error, store: store.id }, 'could not look for bases'),
      )
    },
  }
}
