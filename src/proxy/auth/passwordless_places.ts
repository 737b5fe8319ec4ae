import type { Duplex } from 'node:stream'
import { ProxyError } from '../wire/errors.ts'

/**
 * Limits of waiting logins, per proxy process. They take no place of ordinary logins: a connection that waits is
 * counted here only. An account, an endpoint or a network can use up its own share alone.
 */
const MAX_IN_ALL = 200
const MAX_OF_ACCOUNT = 20
const MAX_OF_ENDPOINT = 10
const MAX_OF_NETWORK = 5

/** The names under which a waiting login counts. */
export interface WaitingPlace {
  readonly accountId: string
  readonly endpointId: string
  readonly network: string
}

/** Counts the logins that wait. */
export interface WaitingPlaces {
  /** Takes a place until the returned function is called. Errors: too_many_passwordless. */
  take(client: Duplex, place: WaitingPlace): () => void
}

export function createWaitingPlaces(): WaitingPlaces {
  const counts = new Map<string, number>()

  function change(name: string, by: 1 | -1): void {
    const count = (counts.get(name) ?? 0) + by
    if (count > 0) counts.set(name, count)
    else counts.delete(name)
  }

  return {
    take(client, { accountId, endpointId, network }) {
      const limits: readonly [string, number][] = [
        ['all', MAX_IN_ALL],
        [`account ${accountId}`, MAX_OF_ACCOUNT],
        [`endpoint ${endpointId}`, MAX_OF_ENDPOINT],
        [`network ${network}`, MAX_OF_NETWORK],
      ]
      if (limits.some(([name, limit]) => (counts.get(name) ?? 0) >= limit))
        throw new ProxyError('too_many_passwordless')
      for (const [name] of limits) change(name, 1)
      let isTaken = true
      const leave = (): void => {
        client.off('close', leave)
        if (isTaken) for (const [name] of limits) change(name, -1)
        isTaken = false
      }
      client.once('close', leave)
      return leave
    },
  }
}
