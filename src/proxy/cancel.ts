import type { Duplex } from 'node:stream'
import { closeGently } from './close.ts'

const LENGTH_AND_CODE = 8

/** What can be cancelled. */
export interface Cancellable {
  cancel(): void
}

export interface CancelKeys {
  /** Remembers whose key it is (the body of BackendKeyData). The answer forgets it. */
  remember(key: Buffer, session: Cancellable): () => void
  /** Cancels what runs in the session whose key a CancelRequest shows; says nothing either way, as Postgres does not. */
  pass(client: Duplex, packet: Buffer): void
}

export function createCancelKeys(): CancelKeys {
  const sessions = new Map<string, Cancellable>()

  return {
    remember(key, session) {
      const name = key.toString('latin1')
      sessions.set(name, session)
      return () => void sessions.delete(name)
    },
    pass(client, packet) {
      sessions.get(packet.toString('latin1', LENGTH_AND_CODE))?.cancel()
      closeGently(client)
    },
  }
}
