import { isHostShort, listSlowStores, type SlowStore } from '../catalog/history.ts'
import type { WorkerContext } from '../context.ts'
import type { Progress } from '../host/fence.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000
/** After this, spares of other stores are made beside one that takes long. */
const PATIENCE_MS = 60_000

/**
 * Keeps spares of the data of each store whose clones take long and are made, while it is at rest, and of its latest
 * base, as many as clones were made of it within a day: the next branch, or restore to a moment, need not wait for a
 * clone. One is made after the other.
 */
export function startSpareLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  let making: { readonly id: string; readonly since: number } | undefined

  async function tend({ id, base, clones, is_running }: SlowStore, hasRoom: boolean): Promise<Progress> {
    if (making?.id !== id) making = { id, since: performance.now() }
    const { since } = making
    try {
      const isWanted = clones > 0 && hasRoom
      const wanted = { base: isWanted ? (base ?? undefined) : undefined, ofData: isWanted && !is_running }
      if ((await storage.tendSpares({ id }, { ...wanted, count: clones })) === 'pending')
        return performance.now() - since > PATIENCE_MS ? 'done' : 'pending'
    } catch (error) {
      log.warn({ err: error, store: id }, 'could not make a clone ahead')
    }
    making = undefined
    return 'done'
  }

  /** The stores, from the one on whose spare is being made. */
  function inTurn(stores: SlowStore[]): SlowStore[] {
    const first = Math.max(
      0,
      stores.findIndex(({ id }) => id === making?.id),
    )
    return [...stores.slice(first), ...stores.slice(0, first)]
  }

  const round = async (): Promise<void> => {
    const hasRoom = !(await isHostShort(catalog, hostId))
    for (const store of inTurn(await listSlowStores(catalog, hostId)))
      if ((await tend(store, hasRoom)) === 'pending') return
  }
  return startPeriodic(EVERY_MS, round, (error) => log.warn({ err: error }, 'could not make clones ahead'))
}
