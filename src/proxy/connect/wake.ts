import { isBusy } from '../../catalog/busy.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import { ANNOUNCEMENTS, type ComputeAnnouncement, type ConnectTarget } from '../../catalog/compute.ts'
import { findEndpoint, type PlacedEndpoint } from '../../catalog/endpoint.ts'
import { awaitOperations, waitReasonOf } from '../../catalog/operation.ts'
import { AppError } from '../../errors.ts'
import { withTimeout } from '../../race.ts'
import { ProxyError } from '../wire/errors.ts'

/**
 * Requests a start_compute operation of the endpoint, or joins an unfinished one, and returns its id. Returns undefined
 * if the endpoint is already active with another compute than `deadComputeId`. Errors: NOT_FOUND, NOT_ALLOWED
 * (disabled), a quota, UNAVAILABLE.
 */
export type RequestStart = (endpoint: ToWake, deadComputeId: string | undefined) => Promise<string | undefined>

/** An endpoint that may have to be woken. */
export type ToWake = Pick<PlacedEndpoint, 'id' | 'project_id'>

export interface Waker {
  /** Reads the endpoint from the catalog. Errors: unknown_endpoint, disabled_endpoint, catalog_away. */
  find(endpointId: string): Promise<PlacedEndpoint>
  /**
   * Wakes the endpoint and returns its target. Concurrent calls for one endpoint share one request.
   * @param deadComputeId the compute that did not answer, if any
   * Errors: as `find`; quota, start_failed, not_in_time.
   */
  wake(endpoint: ToWake, deadComputeId: string | undefined): Promise<ConnectTarget>
  /** What the endpoint's start waits for at the moment, for its clients; undefined when the catalog does not tell. */
  explain(endpointId: string): Promise<string | undefined>
  /** Called for each session that was opened after a wake, with the seconds that it took. */
  readonly onOpened?: ((seconds: number) => void) | undefined
  stop(): void
}

const EXPLAIN_MS = 1_000

export async function startWaker(options: {
  catalog: Catalog
  requestStart: RequestStart
  wakeTimeoutMs: number
  /** Called with the outcome of each wake: `ready`, or the reason of its failure. */
  onWoken?: (outcome: string) => void
  onOpened?: Waker['onOpened']
}): Promise<Waker> {
  const { catalog, requestStart, wakeTimeoutMs, onWoken } = options
  const onAnnounced = new Map<string, (announced: ComputeAnnouncement) => void>()

  async function find(endpointId: string): Promise<PlacedEndpoint> {
    const endpoint = await findEndpoint(catalog, endpointId).catch(rethrowAsProxyError)
    if (!endpoint) throw new ProxyError('unknown_endpoint')
    if (endpoint.disabled) throw new ProxyError('disabled_endpoint')
    return endpoint
  }

  async function start(endpoint: ToWake, deadComputeId: string | undefined): Promise<ConnectTarget> {
    const { id } = endpoint
    const announced = announcement(id, deadComputeId)
    try {
      const operationId = await requestStart(endpoint, deadComputeId).catch(rethrowAsProxyError)
      if (operationId === undefined) return await find(id)
      return await Promise.race([announced, ended(operationId).then(() => find(id))])
    } finally {
      onAnnounced.delete(id)
    }
  }

  /** Resolves when a worker announces the compute's address, which may be before the operation ends. */
  function announcement(endpointId: string, deadComputeId: string | undefined): Promise<ConnectTarget> {
    return new Promise((resolve) => {
      onAnnounced.set(endpointId, ({ host, port, store, id }) => {
        if (id === deadComputeId) return
        resolve({
          current_state: 'active',
          compute_id: id,
          compute_address: host,
          compute_port: port,
          compute_store_id: store,
          holding_operation_id: null,
        })
      })
    })
  }

  async function ended(operationId: string): Promise<void> {
    const [operation] = await awaitOperations(catalog, [operationId], wakeTimeoutMs).catch(rethrowAsProxyError)
    if (!operation || operation.status === 'failed') {
      throw new ProxyError('start_failed', { detail: operation?.error ?? undefined })
    }
    if (!operation.finished_at) {
      throw new ProxyError('not_in_time', { detail: operation.wait_reason ?? operation.error ?? undefined })
    }
  }

  const unlisten = await catalog.listen(ANNOUNCEMENTS, (payload) => {
    if (payload === undefined) return
    const announced = JSON.parse(payload) as ComputeAnnouncement
    onAnnounced.get(announced.endpoint_id)?.(announced)
  })
  const wake = singleFlight(async (_id: string, endpoint: ToWake, deadComputeId: string | undefined) => {
    try {
      const target = await start(endpoint, deadComputeId)
      onWoken?.('ready')
      return target
    } catch (error) {
      onWoken?.(error instanceof ProxyError ? error.reason : 'internal')
      throw error
    }
  })
  const explain = singleFlight((endpointId: string) =>
    withTimeout(
      waitReasonOf(catalog, endpointId).catch(() => undefined),
      EXPLAIN_MS,
      undefined,
    ),
  )
  return {
    find: singleFlight(find),
    wake: (endpoint, deadComputeId) => wake(endpoint.id, endpoint, deadComputeId),
    explain,
    onOpened: options.onOpened,
    stop: unlisten,
  }
}

/** Concurrent calls for one endpoint share the first call's result. */
function singleFlight<Rest extends unknown[], Result>(ask: (endpointId: string, ...rest: Rest) => Promise<Result>) {
  const inFlight = new Map<string, Promise<Result>>()
  return (endpointId: string, ...rest: Rest): Promise<Result> => {
    const known = inFlight.get(endpointId)
    if (known) return known
    const answer = ask(endpointId, ...rest).finally(() => inFlight.delete(endpointId))
    inFlight.set(endpointId, answer)
    return answer
  }
}

/** Maps errors of the catalog and of operations to errors for the client. */
export function rethrowAsProxyError(error: unknown): never {
  if (isBusy(error)) throw new ProxyError('catalog_away', { cause: error })
  if (!(error instanceof AppError)) throw error
  switch (error.code) {
    case 'NOT_FOUND':
      throw new ProxyError('unknown_endpoint', { cause: error })
    case 'NOT_ALLOWED':
      throw new ProxyError('disabled_endpoint', { cause: error })
    case 'COMPUTE_TIME_EXCEEDED':
    case 'WRITTEN_DATA_LIMIT_EXCEEDED':
    case 'LOGICAL_SIZE_LIMIT_EXCEEDED':
    case 'DATA_TRANSFER_LIMIT_EXCEEDED':
      throw new ProxyError('quota', { text: error.message, cause: error })
    case 'UNAVAILABLE':
      throw new ProxyError('catalog_away', { cause: error })
    default:
      throw error
  }
}
