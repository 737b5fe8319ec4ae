import type { Endpoint } from '../../api.ts'
import { wordFor } from '../endpoint_state.tsx'

/** What can be done to an endpoint, and why each cannot be done now; undefined where it can. */
export interface Unavailable {
  readonly start: string | undefined
  readonly suspend: string | undefined
  readonly restart: string | undefined
  readonly move: string | undefined
}

const DISABLED = 'It is stopped: enable it first.'

/** @param isSending a request of this page is under way */
export function unavailableNow(endpoint: Endpoint, isSending: boolean): Unavailable {
  const word = wordFor(endpoint)
  const moving =
    word === 'Starting' || word === 'Suspending' ? `It is ${word.toLowerCase()}: wait until that is over.` : undefined
  const busy = isSending ? 'The request is under way.' : moving
  const disabled = endpoint.disabled ? DISABLED : undefined
  return {
    start: busy ?? disabled ?? (word === 'Active' ? 'It runs already.' : undefined),
    suspend: busy ?? (word === 'Active' ? undefined : 'It does not run.'),
    restart: busy ?? disabled ?? (word === 'Active' ? undefined : 'It does not run: start it.'),
    move: busy,
  }
}
