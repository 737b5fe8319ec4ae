import { isHostShort, listSlowStores, type SlowStore } from '../catalog/history.ts'
import type { WorkerContext } from '../context.ts'
import type { Progress } from '../host/fence.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000
/** A spare that takes longer gives its place to those of other stores; it goes on. */
const PATIENCE_MS = 60_000

/**
 * Keeps a spare of the data of each store whose clones take long, while it is at rest, and of its latest base: the next
 * branch, or restore to a moment, need not wait for a clone. One is made after the other.
 */
export function startSpareLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  let making: { readonly id: string; readonly since: number } | undefined

  async function tend({ id, base, is_running }: SlowStore): Promise<Progress> {
    if (making?.id !== id) making = { id, since: performance.now() }
    try {
      const progress = await storage.tendSpares({ id }, { base: base ?? undefined, ofData: !is_running })
      return performance.now() - making.since > PATIENCE_MS ? 'done' : progress
    } catch (error) {
      log.warn({ err: error, store: id }, 'could not make a clone ahead')
      return 'done'
    }
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
    if (await isHostShort(catalog, hostId)) return
    for (const store of inTurn(await listSlowStores(catalog, hostId))) if ((await tend(store)) === 'pending') return
  }
  return startPeriodic(EVERY_MS, round, (error) => log.warn({ err: error }, 'could not make clones ahead'))
}
