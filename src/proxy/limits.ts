import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ProxyError, type ProxyErrorReason } from './errors.ts'
import { ownerOf } from './network.ts'

/** How many of each there may be in this process; 0 sets no limit. */
export interface LimitSettings {
  /** Connections of one endpoint at once, of those that have logged in. */
  readonly perEndpoint: number
  /** Connections from one address at once. */
  readonly perAddress: number
  /** Connections in all that have not logged in yet. */
  readonly loggingIn: number
  /** New connections of one endpoint in a second, for long. */
  readonly newPerSecond: number
}

/** So many seconds' worth of new connections may come at once: a crowd that finds its endpoint asleep. */
const BURST_SECONDS = 10
const SWEEP_MS = 10_000

/** What keeps one endpoint, one address, or who never logs in, from taking all there is. Remembers only what is connected or was just now. */
export interface Limits {
  /** A connection was accepted. Errors: too_many_logins, too_many_from_address, before it has cost anything. */
  accept(socket: Socket): void
  /** Somebody wants to log in at what may be an endpoint. Errors: too_many_new, too_many_from_address. */
  attempt(client: Duplex, address: string | undefined, endpointId: string): void
  /** They have logged in. Errors: too_many_at_endpoint. */
  admit(client: Duplex, endpointId: string): void
  stop(): void
}

const NONE: LimitSettings = { perEndpoint: 0, perAddress: 0, loggingIn: 0, newPerSecond: 0 }

export function createLimits(settings: LimitSettings = NONE, now = () => performance.now()): Limits {
  const accepted = createTally()
  const attempting = createTally()
  const admitted = createTally()
  /** Of each endpoint that had new ones: when as many will be due at an even rate. */
  const paidUntil = new Map<string, number>()

  function pay(endpointId: string): void {
    if (settings.newPerSecond === 0) return
    const until = Math.max(paidUntil.get(endpointId) ?? 0, now()) + 1_000 / settings.newPerSecond
    if (until - now() > BURST_SECONDS * 1_000) throw new ProxyError('too_many_new')
    paidUntil.set(endpointId, until)
  }

  const timer = setInterval(() => {
    for (const [endpointId, until] of paidUntil) if (until <= now()) paidUntil.delete(endpointId)
  }, SWEEP_MS).unref()

  return {
    accept(socket) {
      const owner = ownerOf(socket.remoteAddress)
      refuseOver(settings.loggingIn, accepted.all() - admitted.all(), 'too_many_logins')
      // They hear of it only once TLS protects what they are told; those that never get there are let be only so many.
      refuseOver(2 * settings.perAddress, accepted.of(owner), 'too_many_from_address')
      accepted.add(owner, socket)
    },
    attempt(client, address, endpointId) {
      const owner = ownerOf(address)
      refuseOver(settings.perAddress, attempting.of(owner), 'too_many_from_address')
      pay(endpointId)
      attempting.add(owner, client)
    },
    admit(client, endpointId) {
      refuseOver(settings.perEndpoint, admitted.of(endpointId), 'too_many_at_endpoint')
      admitted.add(endpointId, client)
    },
    stop: () => clearInterval(timer),
  }
}

function refuseOver(most: number, there: number, reason: ProxyErrorReason): void {
  if (most > 0 && there >= most) throw new ProxyError(reason)
}

/** Counts connections by name, each until it is closed. */
function createTally() {
  const counts = new Map<string, number>()
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
    add(name: string, client: Duplex) {
      if (client.destroyed) return
      change(name, 1)
      client.once('close', () => change(name, -1))
    },
  }
}
