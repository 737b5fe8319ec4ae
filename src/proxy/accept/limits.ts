import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ownerOf } from '../../network.ts'
import { ProxyError, type ProxyErrorReason } from '../wire/errors.ts'
import { createTokenBuckets } from './token_buckets.ts'

/** Limits of this process; 0 sets no limit. */
export interface LimitSettings {
  /** Concurrent logged-in connections per endpoint. */
  readonly perEndpoint: number
  /** Concurrent connections per address. */
  readonly perAddress: number
  /** Concurrent connections before login, in total. */
  readonly loggingIn: number
  /** Concurrent connections before login, per address. */
  readonly loggingInPerAddress: number
  /** Sustained new connections per second, per endpoint and per address. */
  readonly newPerSecond: number
}

/** Burst of new connections, in seconds of `newPerSecond`: many clients may find their endpoint idle at once. */
const BURST_SECONDS = 10

/** Limits the share of one endpoint, one address, or unauthenticated clients. Stores only current and recent names. */
export interface Limits {
  /** Counts an accepted connection, before its TLS handshake. Errors: too_many_logins, too_many_from_address. */
  accept(socket: Socket, address: string | undefined): void
  /** Counts a login attempt at an endpoint, which may not exist. Errors: too_many_new, too_many_from_address. */
  attempt(client: Duplex, address: string | undefined, endpointId: string): void
  /** Counts a client after its login. Errors: too_many_at_endpoint, too_many_new. */
  admit(client: Duplex, endpointId: string): void
  /** Counts the client's connection as logged in. Repeated calls count once. */
  loggedIn(connection: Socket, address: string | undefined): void
}

const NONE: LimitSettings = { perEndpoint: 0, perAddress: 0, loggingIn: 0, loggingInPerAddress: 0, newPerSecond: 0 }

export function createLimits(settings: LimitSettings = NONE, now = () => performance.now()): Limits {
  const accepted = createTally()
  const entered = createTally()
  const attempting = createTally()
  const admitted = createTally()
  const { newPerSecond } = settings
  const [ofAddresses, ofAttempts, ofEndpoints] = [1, 2, 3].map(() =>
    createTokenBuckets(BURST_SECONDS * newPerSecond, newPerSecond, now),
  )

  function countNew(buckets: typeof ofAddresses, name: string, reason: ProxyErrorReason): void {
    if (newPerSecond > 0 && !buckets?.take(name)) throw new ProxyError(reason)
  }

  return {
    accept(socket, address) {
      const owner = ownerOf(address)
      refuseOver(settings.loggingInPerAddress, accepted.of(owner) - entered.of(owner), 'too_many_from_address')
      refuseOver(settings.loggingIn, accepted.all() - entered.all(), 'too_many_logins')
      // `attempt` enforces perAddress, where TLS protects the error. This bounds connections that never get there.
      refuseOver(2 * settings.perAddress, accepted.of(owner), 'too_many_from_address')
      countNew(ofAddresses, owner, 'too_many_from_address')
      accepted.add(owner, socket)
    },
    attempt(client, address, endpointId) {
      const owner = ownerOf(address)
      refuseOver(settings.perAddress, attempting.of(owner), 'too_many_from_address')
      // Per address and endpoint: other addresses cannot use up the rate of the endpoint's own clients.
      countNew(ofAttempts, `${owner} ${endpointId}`, 'too_many_new')
      attempting.add(owner, client)
    },
    admit(client, endpointId) {
      refuseOver(settings.perEndpoint, admitted.of(endpointId), 'too_many_at_endpoint')
      countNew(ofEndpoints, endpointId, 'too_many_new')
      admitted.add(endpointId, client)
    },
    loggedIn(connection, address) {
      if (!entered.has(connection)) entered.add(ownerOf(address), connection)
    },
  }
}

function refuseOver(limit: number, count: number, reason: ProxyErrorReason): void {
  if (limit > 0 && count >= limit) throw new ProxyError(reason)
}

/** Counts open connections by name. */
function createTally() {
  const counts = new Map<string, number>()
  const counted = new WeakSet<Duplex>()
  let total = 0

  function change(name: string, by: 1 | -1): void {
    total += by
    const count = (counts.get(name) ?? 0) + by
    if (count > 0) counts.set(name, count)
    else counts.delete(name)
  }

  return {
    all: () => total,
    of: (name: string) => counts.get(name) ?? 0,
    has: (client: Duplex) => counted.has(client),
    add(name: string, client: Duplex) {
      if (client.destroyed) return
      counted.add(client)
      change(name, 1)
      client.once('close', () => change(name, -1))
    },
  }
}
