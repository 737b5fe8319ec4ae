import { withTimeout } from '../race.ts'

/** A caller waits no longer than this for the one before it, which may be stuck. */
const LIMIT_MS = 5_000

/**
 * Lets callers with the same key follow each other. Transactions that change a project would wait for its row one after
 * the other, each in a session of its own, and to open a session costs more than the transaction.
 */
export function createTurns() {
  const last = new Map<string, Promise<void>>()

  /** Resolves when it is the caller's turn, to a function that ends the turn. */
  return async (key: string): Promise<() => void> => {
    const before = last.get(key)
    const turn = Promise.withResolvers<void>()
    last.set(key, turn.promise)
    if (before) await withTimeout(before, LIMIT_MS, undefined)
    return () => {
      if (last.get(key) === turn.promise) last.delete(key)
      turn.resolve()
    }
  }
}
