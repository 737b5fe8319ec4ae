/*
 * Detects computes that end without a request: a crash, the kernel's OOM killer, a manual kill.
 *
 *   followed ──its process ends──▶ ended ──no unfinished operation──▶ endpoint idle, the end recorded
 *                                    ├─ a client has reconnected: a start is unfinished ──▶ the end recorded
 *                                    └─ another operation is unfinished: it may have ended the compute, and says so
 */
import { findEndpointCompute, type FollowedCompute, listComputes } from '../catalog/compute.ts'
import { findEndpointEver } from '../catalog/endpoint.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { reconcile, recordReplaced } from './adoption.ts'
import type { Loop } from './periodic.ts'

/** How long an operation has to record that it ended a compute, before the next look. */
const AGAIN_MS = 1_000

/** Follows every compute of this host that the catalog knows. Each change of an endpoint costs one query. */
export async function startCrashLoop(context: WorkerContext): Promise<Loop> {
  const { catalog, computes, hostId, log } = context
  const endpointOf = new Map<string, string>()
  /** The endpoints whose compute may be another one. */
  const changed = new Set<string>()
  let allChanged = true
  /** The computes that have ended, with the time of the next look at each, by performance.now(). */
  const ended = new Map<string, number>()
  let stopping = false

  const watch = computes.watch((id) => {
    ended.set(id, 0)
    loop.wake()
  })
  const loop = createEventLoop({
    async look() {
      for (const [id, at] of ended) if (at <= performance.now() && !stopping) await settle(id)
      if (!stopping) await followChanged()
      return ended.size > 0 ? Math.max(0, Math.min(...ended.values()) - performance.now()) : undefined
    },
    onError: (error) => log.warn({ err: error }, 'could not list the computes of this host'),
  })

  async function settle(id: string): Promise<void> {
    const endpoint = endpointOf.get(id)
    ended.set(id, performance.now() + AGAIN_MS)
    try {
      if (!(await isSettled(id, endpoint))) return
      ended.delete(id)
      endpointOf.delete(id)
    } catch (error) {
      log.warn({ err: error, endpoint }, 'could not record the end of a compute')
    }
  }

  async function isSettled(compute: string, id: string | undefined): Promise<boolean> {
    const endpoint = id === undefined ? undefined : await findEndpointEver(catalog, id)
    if (endpoint && endpoint.compute_id !== compute) await recordReplaced(context, endpoint, compute)
    if (endpoint?.compute_id !== compute) return true
    return (await reconcile(context, endpoint, compute)) !== 'busy'
  }

  function follow({ id, endpoint_id, store_id, host_id }: FollowedCompute): void {
    if (host_id !== hostId || endpointOf.has(id)) return
    endpointOf.set(id, endpoint_id)
    watch.follow({ id, storeId: store_id })
  }

  async function followChanged(): Promise<void> {
    const ids = [...changed]
    const all = allChanged
    changed.clear()
    allChanged = false
    try {
      if (all) for (const compute of await listComputes(catalog, hostId)) follow(compute)
      else
        for (const id of ids) {
          const compute = await findEndpointCompute(catalog, id)
          if (compute) follow(compute)
        }
    } catch (error) {
      allChanged = true
      throw error
    }
  }

  const unlisten = await catalog.listen('endpoint', (id) => {
    if (id === undefined) allChanged = true
    else changed.add(id)
    loop.wake()
  })
  loop.wake()

  return {
    stop() {
      stopping = true
      unlisten()
      watch.stop()
      return loop.stop()
    },
  }
}
