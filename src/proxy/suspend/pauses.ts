/*
 * The proxy's side of the handshake that suspends an idle compute without cutting off a client.
 *
 *   open ──row requests a pause──▶ paused ──activity and pause written──▶ acknowledged
 *    ▲                               │ a byte or a connection arrives ──▶ woken (written once)
 *    └──row ends the pause───────────┘ kept bytes are forwarded, if the compute is still the same
 *
 * Sessions with an endpoint that was deleted, or whose project was, end at once.
 *
 * A login in progress at the compute is dropped and restarted: the client has seen nothing of it yet. Every live proxy
 * acknowledges, with or without sessions. A proxy that may have missed a notification reads all relevant rows.
 */
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { type EndpointPause, recordPause } from '../../catalog/proxy.ts'
import { createPauseReader } from './pause_reader.ts'
import type { Traffic, TrafficTable } from './traffic.ts'

/** Bytes forwarded within this time may be missing in Postgres' statistics. */
const UNSEEN_MS = 250

export interface Pauses {
  /** Waits until the endpoint is not paused. Reports to the pausing operation that a client needs the compute. */
  pass(traffic: Traffic): Promise<void>
  /** Rereads all relevant rows, and acknowledges pauses under the proxy's current number. */
  renew(): Promise<void>
  stop(): void
}

interface PausedEndpoint {
  readonly traffic: Traffic
  readonly operationId: string
  woken: boolean
  acknowledged: Promise<void>
  readonly end: () => void
}

export async function startPauses(options: {
  catalog: Catalog
  table: TrafficTable
  /** The number under which the proxy is registered. undefined while it is not. */
  proxyNumber: () => number | undefined
  writeActivity: () => Promise<void>
  log: Logger
}): Promise<Pauses> {
  const { catalog, table, log } = options
  const paused = new Map<string, PausedEndpoint>()

  function apply(endpointId: string, row: EndpointPause | undefined): void {
    const traffic = table.get(endpointId)
    if (traffic) traffic.writesRefused = row?.writes_refused ?? null
    // Its compute may take a while to stop.
    if (!row || row.is_deleted) for (const session of traffic?.sessions ?? []) session.endDeleted()
    const operationId = row?.holding_operation_id ?? undefined
    const now = paused.get(endpointId)
    if (now && now.operationId !== operationId) resume(now, row?.compute_id ?? undefined)
    if (operationId !== undefined && now?.operationId !== operationId) pause(endpointId, operationId)
  }

  function pause(endpointId: string, operationId: string): void {
    const traffic = table.enter(endpointId)
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const recent = Date.now() - traffic.lastByteAt < UNSEEN_MS
    const woken = recent || [...traffic.sessions].some((session) => session.isSending())
    const entry: PausedEndpoint = { traffic, operationId, woken, acknowledged: Promise.resolve(), end }
    paused.set(endpointId, entry)
    traffic.pause = { operationId, over, wake: () => wake(entry) }
    acknowledge(entry)
  }

  function wake(entry: PausedEndpoint): void {
    if (entry.woken) return
    entry.woken = true
    acknowledge(entry)
  }

  /** Acknowledges to the operation, one write at a time. A failed write is repeated when the catalog is back. */
  function acknowledge(entry: PausedEndpoint): void {
    entry.acknowledged = entry.acknowledged.then(async () => {
      const number = options.proxyNumber()
      if (number === undefined) return
      try {
        await options.writeActivity()
        await recordPause(catalog, entry.operationId, number, entry.woken)
      } catch (error) {
        log.warn({ err: error, endpoint: entry.traffic.endpointId }, 'could not acknowledge the pause of an endpoint')
      }
    })
  }

  function resume({ traffic, end }: PausedEndpoint, computeId: string | undefined): void {
    paused.delete(traffic.endpointId)
    traffic.pause = undefined
    end()
    // Sessions with a compute that is gone are not resumed: they end with that compute's last message.
    for (const session of traffic.sessions) if (session.computeId === computeId) session.resume()
    table.leave(traffic)
  }

  const pausedHere = () => [...paused.keys(), ...table.refusingWrites().map(({ endpointId }) => endpointId)]
  const reader = createPauseReader({ catalog, pausedHere, apply, log })
  const unlisten = await catalog.listen('endpoint', (endpointId) => {
    void (endpointId === undefined ? renew() : reader.read(endpointId))
  })

  async function renew(): Promise<void> {
    const before = [...paused.values()]
    await reader.readAll()
    for (const entry of before) if (paused.get(entry.traffic.endpointId) === entry) acknowledge(entry)
  }

  return {
    async pass(traffic) {
      if (!traffic.pause) await reader.read(traffic.endpointId)
      traffic.pause?.wake()
      await traffic.pause?.over
    },
    renew,
    stop() {
      reader.stop()
      unlisten()
    },
  }
}
