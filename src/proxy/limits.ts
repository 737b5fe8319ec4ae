import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createBuckets } from './buckets.ts'
import { ProxyError, type ProxyErrorReason } from './errors.ts'
import { ownerOf } from '../network.ts'

/** How many of each there may be in this process; 0 sets no limit. */
export interface LimitSettings {
  /** Connections of one endpoint at once, of those that have logged in. */
  readonly perEndpoint: number
  /** Connections from one address at once. */
  readonly perAddress: number
  /** Connections in all that have not logged in yet. */
  readonly loggingIn: number
  /** Of these, from one address. */
  readonly loggingInPerAddress: number
  /** New connections of one endpoint, and from one address, in a second, for long. */
  readonly newPerSecond: number
}

/** So many seconds' worth of new connections may come at once: a crowd that finds its endpoint asleep. */
const BURST_SECONDS = 10

/** Keeps one endpoint, one address, or clients that never log in, from taking all there is. Remembers only what is connected or was just now. */
export interface Limits {
  /** A connection was accepted. Errors: too_many_logins, too_many_from_address, before it has cost a handshake. */
  accept(socket: Socket, address: string | undefined): void
  /** A client wants to log in at what may be an endpoint. Errors: too_many_new, too_many_from_address. */
  attempt(client: Duplex, address: string | undefined, endpointId: string): void
  /** It has logged in. Errors: too_many_at_endpoint, too_many_new. */
  admit(client: Duplex, endpointId: string): void
  /** So has the connection that it came by, once or again. */
  loggedIn(connection: Socket, address: string | undefined): void
}

const NONE: LimitSettings = { perEndpoint: 0, perAddress: 0, loggingIn: 0, loggingInPerAddress: 0, newPerSecond: 0 }

export function createLimits(settings: LimitSettings = NONE, now = () => performance.now()): Limits {
  const accepted = createTally()
  const entered = createTally()
  const attempting = createTally()
  const admitted = createTally()
  const { newPerSecond } = settings
  const [ofAddresses, ofStrangers, ofEndpoints] = [1, 2, 3].map(() =>
    createBuckets(BURST_SECONDS * newPerSecond, newPerSecond, now),
  )

  function countNew(buckets: typeof ofAddresses, name: string, reason: ProxyErrorReason): void {
    if (newPerSecond > 0 && !buckets?.take(name)) throw new ProxyError(reason)
  }

  return {
    accept(socket, address) {
      const owner = ownerOf(address)
      refuseOver(settings.loggingInPerAddress, accepted.of(owner) - entered.of(owner), 'too_many_from_address')
      refuseOver(settings.loggingIn, accepted.all() - entered.all(), 'too_many_logins')
      // They hear of it only once TLS protects what they are told; those that never get there are let be only so many.
      refuseOver(2 * settings.perAddress, accepted.of(owner), 'too_many_from_address')
      countNew(ofAddresses, owner, 'too_many_from_address')
      accepted.add(owner, socket)
    },
    attempt(client, address, endpointId) {
      const owner = ownerOf(address)
      refuseOver(settings.perAddress, attempting.of(owner), 'too_many_from_address')
      // Of each owner by itself: strangers cannot use up what an endpoint's own clients may.
      countNew(ofStrangers, `${owner} ${endpointId}`, 'too_many_new')
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

function refuseOver(most: number, there: number, reason: ProxyErrorReason): void {
  if (most > 0 && there >= most) throw new ProxyError(reason)
}

/** Counts connections by name, each until it is closed. */
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
