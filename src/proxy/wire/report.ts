import type { Logger } from 'pino'
import type { ProxyMetrics } from '../../observe/proxy_metrics.ts'
import { ProxyError } from './errors.ts'

/** Metrics and log of the proxy. */
export interface ReportContext {
  readonly metrics: ProxyMetrics
  readonly log: Logger
}

/** Counts the error and returns the client's error. Logs internal errors and those that the operator must resolve. */
export function asProxyError(error: unknown, { metrics, log }: ReportContext): ProxyError {
  metrics.refused(error instanceof ProxyError ? error.reason : 'internal')
  if (!(error instanceof ProxyError)) {
    log.error({ err: error }, 'a connection failed')
    return new ProxyError('internal', { cause: error })
  }
  if (
    error.reason === 'start_failed' ||
    error.reason === 'not_in_time' ||
    error.reason === 'catalog_away' ||
    error.reason === 'too_many_connections'
  ) {
    log.warn({ reason: error.reason, detail: error.detail, err: error.cause }, 'an endpoint could not be reached')
  }
  return error
}
