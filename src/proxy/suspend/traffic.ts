import type { Endpoint } from '../../catalog/endpoint.ts'
import type { TrafficCounts } from '../../catalog/traffic.ts'

/** The session's interface for pauses; its byte path is in splice.ts. */
export interface ForwardedSession {
  /** The process of its compute at the time of the connection. */
  readonly computeId: string | undefined
  /** True while the client is not connected to the compute, or bytes from it are unsent. */
  isSending(): boolean
  /** Forwards the bytes that a pause held back. */
  resume(): void
  /** Ends the session, since its endpoint or project was deleted. */
  endDeleted(): void
}

/** A pause: proxies forward no new bytes, because an operation wants to suspend the compute. */
export interface Pause {
  readonly operationId: string
  /** Reports to the operation, once, that a client needs the compute. */
  wake(): void
  /** Resolves when the pause ends. */
  readonly over: Promise<void>
}

/** State shared by the connections of one endpoint. The byte path only sets and reads its fields. */
export interface Traffic {
  readonly endpointId: string
  readonly sessions: Set<ForwardedSession>
  /** Milliseconds since 1970 at which the last byte passed; 0 before the first. */
  lastByteAt: number
  /** Bytes and connections since the last `takeCounts`. */
  toClients: number
  fromClients: number
  connections: number
  pause: Pause | undefined
  /** Why the compute refuses writes; undefined until the first login has told. */
  writesRefused: Endpoint['writes_refused'] | undefined
  /** Examines a chunk from a client before it is forwarded. */
  look(chunk: Buffer): void
}

export interface TrafficTable {
  /** Returns the endpoint's entry, created if missing. It stays until every `enter` has its `leave`. */
  enter(endpointId: string): Traffic
  leave(traffic: Traffic): void
  get(endpointId: string): Traffic | undefined
  paused(): Traffic[]
  refusingWrites(): Traffic[]
  /** Endpoints with bytes forwarded since the last call, and the time of the last byte. */
  takeSeen(): Map<string, number>
  /** How many clients endpoints have, by endpoint id; those without any are absent. */
  clients(): Map<string, number>
  /** Counts since the last call, by endpoint id. */
  takeCounts(): Map<string, TrafficCounts>
}

/** @param lookFor makes the function `look` of an endpoint */
export function createTrafficTable(lookFor: (endpointId: string) => Traffic['look'] = () => () => {}): TrafficTable {
  const entries = new Map<string, { traffic: Traffic; users: number; taken: number }>()

  function forgetIfDone(endpointId: string): void {
    const entry = entries.get(endpointId)
    if (entry?.users === 0 && entry.taken === entry.traffic.lastByteAt && !hasCounted(entry.traffic))
      entries.delete(endpointId)
  }

  return {
    enter(endpointId) {
      let entry = entries.get(endpointId)
      if (!entry) {
        entry = { traffic: newTraffic(endpointId, lookFor(endpointId)), users: 0, taken: 0 }
        entries.set(endpointId, entry)
      }
      entry.users += 1
      return entry.traffic
    },
    leave({ endpointId }) {
      const entry = entries.get(endpointId)
      if (entry) entry.users -= 1
      forgetIfDone(endpointId)
    },
    get: (endpointId) => entries.get(endpointId)?.traffic,
    paused: () => [...entries.values()].map((entry) => entry.traffic).filter((traffic) => traffic.pause),
    refusingWrites: () => [...entries.values()].map(({ traffic }) => traffic).filter((each) => each.writesRefused),
    takeSeen() {
      const seen = new Map<string, number>()
      for (const [endpointId, entry] of entries) {
        if (entry.taken === entry.traffic.lastByteAt) continue
        entry.taken = entry.traffic.lastByteAt
        seen.set(endpointId, entry.taken)
        forgetIfDone(endpointId)
      }
      return seen
    },
    clients() {
      const counted = new Map<string, number>()
      for (const [endpointId, { traffic }] of entries)
        if (traffic.sessions.size > 0) counted.set(endpointId, traffic.sessions.size)
      return counted
    },
    takeCounts() {
      const counted = new Map<string, TrafficCounts>()
      for (const [endpointId, { traffic }] of entries) {
        if (!hasCounted(traffic)) continue
        const { toClients, fromClients, connections } = traffic
        counted.set(endpointId, { toClients, fromClients, connections })
        Object.assign(traffic, NOTHING)
        forgetIfDone(endpointId)
      }
      return counted
    },
  }
}

const NOTHING: TrafficCounts = { toClients: 0, fromClients: 0, connections: 0 }

const hasCounted = (traffic: Traffic): boolean =>
  traffic.toClients > 0 || traffic.fromClients > 0 || traffic.connections > 0

function newTraffic(endpointId: string, look: Traffic['look']): Traffic {
  return {
    endpointId,
    sessions: new Set(),
    lastByteAt: 0,
    ...NOTHING,
    pause: undefined,
    writesRefused: undefined,
    look,
  }
}
