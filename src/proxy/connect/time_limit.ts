import { ProxyError } from '../wire/errors.ts'
import type { Waker } from './wake.ts'

/**
 * Aborts `reaching` after `ms`, with an error that tells what the endpoint's start waits for: a recovery may take
 * hours. Returns the function that lifts the limit.
 */
export function limitWait(
  waker: Pick<Waker, 'explain'>,
  endpointId: string,
  ms: number,
  reaching: AbortController,
): () => void {
  const timer = setTimeout(() => {
    void waker.explain(endpointId).then((detail) => reaching.abort(new ProxyError('not_in_time', { detail })))
  }, ms)
  return () => clearTimeout(timer)
}
