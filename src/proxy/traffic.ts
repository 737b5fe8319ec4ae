import type { TrafficCounts } from '../catalog/traffic.ts'
import { isDatabaseCommand } from './database_command.ts'

/** What the proxy asks of a session; the byte path of the session is in splice.ts. */
export interface ForwardedSession {
  /** The process its compute had when it was connected. */
  readonly computePid: number | undefined
  /** True if the client, or bytes of it, are still on the way to the compute. */
  isSending(): boolean
  /** Forwards what was kept while held. */
  release(): void
}

/** While proxies must hold what they would forward, because an operation wants to suspend the compute. */
export interface Hold {
  readonly operationId: string
  /** Something wants through: tells the operation, the first time. */
  wake(): void
  /** Resolves when the hold is over. */
  readonly over: Promise<void>
}

/** What the connections of one endpoint share. The byte path only sets and reads fields of this. */
export interface Traffic {
  readonly endpointId: string
  readonly sessions: Set<ForwardedSession>
  /** Milliseconds since 1970 at which the last byte passed; 0 before the first. */
  lastByteAt: number
  /** Bytes and connections that nobody has taken yet, see `takeCounts`. */
  toClients: number
  fromClients: number
  connections: number
  hold: Hold | undefined
  /** Looks at what a client has sent for a command that needs a database to itself, ahead of passing it on. */
  look(chunk: Buffer): void
}

export interface TrafficTable {
  /** The endpoint's entry, made if need be; it stays until everyone that entered has left. */
  enter(endpointId: string): Traffic
  leave(traffic: Traffic): void
  get(endpointId: string): Traffic | undefined
  held(): Traffic[]
  /** What passed since the last call: endpoint id and time of the last byte. */
  takeSeen(): Map<string, number>
  /** What was counted since the last call, by endpoint id. */
  takeCounts(): Map<string, TrafficCounts>
}

/** So often it is told of commands that need a database to themselves, which wait ten times as long. */
const TOLD_MS = 500

/** @param onDatabaseCommand told of an endpoint where a client has sent a command that needs a database to itself */
export function createTrafficTable(onDatabaseCommand: (endpointId: string) => void = () => {}): TrafficTable {
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
        entry = { traffic: newTraffic(endpointId, onDatabaseCommand), users: 0, taken: 0 }
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
    held: () => [...entries.values()].map((entry) => entry.traffic).filter((traffic) => traffic.hold),
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

function newTraffic(endpointId: string, onDatabaseCommand: (endpointId: string) => void): Traffic {
  let toldAt = -TOLD_MS
  let timer: NodeJS.Timeout | undefined

  function tell(): void {
    timer = undefined
    toldAt = performance.now()
    onDatabaseCommand(endpointId)
  }

  return {
    endpointId,
    sessions: new Set(),
    lastByteAt: 0,
    ...NOTHING,
    hold: undefined,
    look(chunk) {
      if (isDatabaseCommand(chunk)) timer ??= setTimeout(tell, toldAt + TOLD_MS - performance.now()).unref()
    },
  }
}
