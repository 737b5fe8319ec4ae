import { setLimitError } from '../catalog/endpoint.ts'
import type { SizedEndpoint } from '../catalog/scaling.ts'
import type { WorkerContext } from '../context.ts'
import type { ScalingState } from '../scaling/policy.ts'

/** The time until a compute that could not be limited is tried again. */
export const LIMIT_RETRY_MS = 10_000

/** A compute that is kept at its size. */
export interface Limited {
  endpoint: SizedEndpoint
  readonly state: Pick<ScalingState, 'cu' | 'memoryCu'>
  /** By performance.now(): when it is to be limited; undefined once it is. */
  limitAt: number | undefined
}

/**
 * Returns a function that limits a compute beside all others: the kernel may take seconds to reclaim memory.
 * @param find the endpoint as it is by the time that its compute is limited
 */
export function createLimiter(
  { catalog, computes, log }: WorkerContext,
  find: (endpointId: string) => Limited | undefined,
  changed: () => void,
): (each: Limited) => void {
  const limiting = new Set<string>()

  /** Returns why the compute is not limited. */
  async function write(endpoint: SizedEndpoint, { memoryCu }: Limited['state']): Promise<string | null> {
    const { id, compute_id, cu, min_cu: minCu, max_cu: maxCu, limit_error } = endpoint
    const error = (await computes.resize(compute_id, { minCu, maxCu, cu, memoryCu })) ?? null
    if (error === limit_error) return error
    if (error !== null) log.warn({ endpoint: id, compute: compute_id, error }, 'a compute is not held to its size')
    await setLimitError(catalog, id, compute_id, error)
    return error
  }

  async function limit({ endpoint, state }: Limited): Promise<void> {
    const { id, compute_id } = endpoint
    let error = endpoint.limit_error
    let retries = true
    try {
      error = await write(endpoint, state)
      retries = error !== null
    } catch (failure) {
      log.debug({ err: failure, endpoint: id }, 'could not limit a compute')
    }
    limiting.delete(compute_id)
    const now = find(id)
    if (now?.endpoint.compute_id !== compute_id) return
    now.endpoint = { ...now.endpoint, limit_error: error }
    const isCurrent = now.state.cu === state.cu && now.state.memoryCu === state.memoryCu
    const retryAt = retries ? performance.now() + LIMIT_RETRY_MS : undefined
    now.limitAt = isCurrent ? retryAt : 0
    changed()
  }

  return (each) => {
    if (limiting.has(each.endpoint.compute_id)) return
    limiting.add(each.endpoint.compute_id)
    void limit(each)
  }
}
