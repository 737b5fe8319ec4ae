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
import { reconcile } from './adoption.ts'
import type { Loop } from './periodic.ts'

/** How long an operation has to record that it ended a compute, before the next look. */
const AGAIN_MS = 1_000

/** Follows every compute of this host that the catalog knows. Each change of an endpoint costs one query. */
export async function startCrashLoop(context: WorkerContext): Promise<Loop> {
  const { catalog, computes, hostId, log } = context
  const endpointOf = new Map<string, string>()
  const changed = new Set<string>()
  const timers = new Set<NodeJS.Timeout>()
  let round: Promise<void> = Promise.resolve()
  let stopping = false

  const watch = computes.watch((compute) => later(0, () => look(compute)))

  function later(ms: number, work: () => Promise<void>): void {
    const timer = setTimeout(() => {
      timers.delete(timer)
      round = round.then(() => (stopping ? undefined : work()))
    }, ms)
    timers.add(timer)
  }

  async function look(compute: string): Promise<void> {
    const id = endpointOf.get(compute)
    try {
      if (await isSettled(compute, id)) endpointOf.delete(compute)
      else later(AGAIN_MS, () => look(compute))
    } catch (error) {
      log.warn({ err: error, endpoint: id }, 'could not find out about a compute that ended')
      later(AGAIN_MS, () => look(compute))
    }
  }

  async function isSettled(compute: string, id: string | undefined): Promise<boolean> {
    const endpoint = id === undefined ? undefined : await findEndpointEver(catalog, id)
    if (endpoint?.compute_id !== compute) return true
    return (await reconcile(context, endpoint, compute)) !== 'busy'
  }

  function follow({ id, endpoint_id, store_id, host_id }: FollowedCompute): void {
    if (host_id !== hostId || endpointOf.has(id)) return
    endpointOf.set(id, endpoint_id)
    watch.follow({ id, storeId: store_id })
  }

  async function catchUp(): Promise<void> {
    const ids = [...changed]
    changed.clear()
    for (const id of ids) {
      const compute = await findEndpointCompute(catalog, id)
      if (compute) follow(compute)
    }
  }

  async function followAll(): Promise<void> {
    for (const compute of await listComputes(catalog, hostId)) follow(compute)
  }

  function attempt(work: () => Promise<void>): void {
    round = round.then(work).catch((error: unknown) => {
      log.warn({ err: error }, 'could not find out which computes run')
      if (!stopping) later(AGAIN_MS, async () => attempt(followAll))
    })
  }

  const unlisten = await catalog.listen('endpoint', (id) => {
    if (id === undefined) return attempt(followAll)
    if (changed.size === 0) attempt(catchUp)
    changed.add(id)
  })
  attempt(followAll)

  return {
    async stop() {
      stopping = true
      unlisten()
      timers.forEach(clearTimeout)
      watch.stop()
      await round
    },
  }
}
