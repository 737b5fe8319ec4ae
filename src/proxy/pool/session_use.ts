/*
 * What the session of a server connection holds of its clients.
 *
 *   clean ──lend──▶ used ──a prepared statement no longer fits its table──▶ stale
 *   used ──lend to another client, or reset while idle──▶ resetting
 *   stale ──lend, or reset while idle──▶ resetting
 *   resetting ──DISCARD ALL is done──▶ used if it is lent, else clean
 *   resetting ──error──▶ closed, as each state when the connection ends
 */
import type { Borrower } from './borrower.ts'

export interface SessionUse {
  phase: 'clean' | 'used' | 'stale' | 'resetting' | 'closed'
  /** The client that has used the session since it was clean, or will once it is. */
  user: Borrower | undefined
}

export const createSessionUse = (): SessionUse => ({ phase: 'clean', user: undefined })

/** Whether no client has used it since it was opened or reset. */
export const isClean = ({ phase, user }: SessionUse): boolean => user === undefined && phase !== 'stale'

/** Whether a client may use it without a reset. */
export const isFor = ({ phase, user }: SessionUse, client: Borrower): boolean =>
  phase !== 'stale' && (user === undefined || user === client)

/** Returns whether a reset must precede the client's messages. */
export function lendTo(use: SessionUse, client: Borrower): boolean {
  const mustReset = !isFor(use, client)
  if (mustReset) use.phase = 'resetting'
  else if (use.phase === 'clean') use.phase = 'used'
  use.user = client
  return mustReset
}

export function resetIdle(use: SessionUse): void {
  use.phase = 'resetting'
  use.user = undefined
}

/** DISCARD ALL is done. */
export function endReset(use: SessionUse): void {
  if (use.phase === 'resetting') use.phase = use.user ? 'used' : 'clean'
}

export function markStale(use: SessionUse): void {
  if (use.phase !== 'closed') use.phase = 'stale'
}
