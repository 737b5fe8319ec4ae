import { postponeChecks } from '../catalog/availability.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { listEndpointsToSuspend } from '../catalog/endpoint.ts'
import { awaitOperations } from '../catalog/operation.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'

const SUSPEND_MS = 60_000
/** Longer than a shutdown lasts: a check would start a suspended compute again. */
const NO_CHECK_SECONDS = 120

/**
 * Suspends every compute of this host through its worker, also those whose start becomes due meanwhile. Returns the
 * number that could not be suspended within a minute.
 */
export async function suspendAll(catalog: Catalog, hostId: string): Promise<number> {
  await postponeChecks(catalog, NO_CHECK_SECONDS)
  const deadline = performance.now() + SUSPEND_MS
  const seen = new Set<string>()
  let left = 0
  for (;;) {
    const endpoints = (await listEndpointsToSuspend(catalog, hostId)).filter(({ id }) => !seen.has(id))
    if (endpoints.length === 0) return left
    const queued: string[] = []
    for (const endpoint of endpoints) {
      seen.add(endpoint.id)
      queued.push((await catalog.transaction((tx) => queueSuspend(tx, endpoint, 'shutdown'))).id)
    }
    const ended = await awaitOperations(catalog, queued, Math.max(0, deadline - performance.now()))
    left += ended.filter((operation) => operation.status !== 'finished').length
  }
}
