import type { ConnectionContext } from './context.ts'
import { ProxyError } from './errors.ts'

/** What the client is told, counted; what is not meant for it, or is the operator's to mend, goes to the log. */
export function asProxyError(error: unknown, { metrics, log }: Pick<ConnectionContext, 'metrics' | 'log'>): ProxyError {
  metrics.refused(error instanceof ProxyError ? error.reason : 'internal')
  if (!(error instanceof ProxyError)) {
    log.error({ err: error }, 'a connection failed')
    return new ProxyError('internal', { cause: error })
  }
  if (
    error.reason === 'start_failed' ||
    error.reason === 'not_in_time' ||
    error.reason === 'catalog_away' ||
    error.reason === 'crowded'
  ) {
    log.warn({ reason: error.reason, detail: error.detail, err: error.cause }, 'an endpoint could not be reached')
  }
  return error
}
