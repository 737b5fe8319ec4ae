import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { askToCloseIdle, CLOSE_IDLE } from '../../catalog/proxy.ts'

export interface IdleSessions {
  /** Closes the endpoint's pooled sessions without a client, at all proxies. */
  close(endpointId: string): void
  stop(): void
}

/**
 * Idle pooled sessions make Postgres refuse to drop, rename or copy their database. Postgres waits five seconds for
 * other sessions to leave (CountOtherDBBackends in procarray.c), so idle sessions are closed meanwhile.
 * @param closeHere closes the endpoint's pooled sessions without a client at this proxy
 * Errors: the catalog is away.
 */
export async function startIdleSessions(
  catalog: Catalog,
  closeHere: (endpointId: string) => void,
  log: Logger,
): Promise<IdleSessions> {
  const stop = await catalog.listen(CLOSE_IDLE, (endpointId) => {
    if (endpointId !== undefined) closeHere(endpointId)
  })
  return {
    close(endpointId) {
      closeHere(endpointId)
      askToCloseIdle(catalog, endpointId).catch((error: unknown) =>
        log.debug({ err: error, endpoint: endpointId }, 'could not ask other proxies to close idle sessions'),
      )
    },
    stop,
  }
}
