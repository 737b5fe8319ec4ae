import type { Logger } from 'pino'
import type { Catalog } from '../catalog/catalog.ts'
import { askToCloseIdle, CLOSE_IDLE } from '../catalog/proxy.ts'
import type { Pools } from './pool/pools.ts'

export interface IdleSessions {
  /** Has all proxies close the sessions of an endpoint that no client has just now. */
  close(endpointId: string): void
  stop(): void
}

/**
 * Pooled sessions that are at rest count for Postgres as others that are connected to their database, and would have it refuse to drop, rename
 * or copy that. It waits five seconds for them to go (CountOtherDBBackends in its procarray.c), so they are closed while the command runs.
 * Errors: the catalog is away.
 */
export async function startIdleSessions(catalog: Catalog, pools: Pools, log: Logger): Promise<IdleSessions> {
  const stop = await catalog.listen(CLOSE_IDLE, (endpointId) => {
    if (endpointId !== undefined) pools.closeIdle(endpointId)
  })
  return {
    close(endpointId) {
      pools.closeIdle(endpointId)
      askToCloseIdle(catalog, endpointId).catch((error: unknown) =>
        log.debug({ err: error, endpoint: endpointId }, 'could not have other proxies close idle sessions'),
      )
    },
    stop,
  }
}
