/*
 * The proxy's side of the handshake that suspends an idle compute without cutting off a client.
 *
 *   open ──row requests a pause──▶ paused ──activity and pause written──▶ acknowledged
 *    ▲                               │ a byte or a connection arrives ──▶ woken (written once)
 *    └──row ends the pause───────────┘ kept bytes are forwarded, if the compute is still the same
 *
 * A login in progress at the compute is dropped and restarted: the client has seen nothing of it yet. Every live proxy
 * acknowledges, with or without sessions. Rows are read one batch at a time, so the last read is the newest. A proxy
 * that may have missed a notification reads all relevant rows.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { type EndpointHold, listHolding, readHoldings, recordHold } from '../../catalog/proxy.ts'
import type { Traffic, TrafficTable } from './traffic.ts'

/** Bytes forwarded within this time may be missing in Postgres' statistics. */
const UNSEEN_MS = 250

const RETRY_MS = 250

export interface Holds {
  /** Waits until the endpoint is not paused. Reports to the pausing operation that a client needs the compute. */
  pass(traffic: Traffic): Promise<void>
  /** Rereads all relevant rows, and acknowledges pauses under the proxy's current number. */
  renew(): Promise<void>
  stop(): void
}

interface Held {
  readonly traffic: Traffic
  readonly operationId: string
  woken: boolean
  written: Promise<void>
  readonly end: () => void
}

export async function startHolds(options: {
  catalog: Catalog
  table: TrafficTable
  /** The number under which the proxy is registered. undefined while it is not. */
  proxyNumber: () => number | undefined
  writeActivity: () => Promise<void>
  log: Logger
}): Promise<Holds> {
  const { catalog, table, log } = options
  const held = new Map<string, Held>()
  const unread = new Set<string>()
  let allUnread = false
  let reading: Promise<void> = Promise.resolve()
  let queued: Promise<void> | undefined
  let stopped = false

  /** Resolves when the rows unread at the call have been read and applied. */
  function read(): Promise<void> {
    if (!queued) {
      queued = reading.then(() => {
        queued = undefined
        return readUnread()
      })
      reading = queued
    }
    return queued
  }

  async function readUnread(): Promise<void> {
    const all = allUnread
    const ids = new Set(unread)
    allUnread = false
    unread.clear()
    while (!stopped) {
      try {
        if (all) for (const id of [...(await listHolding(catalog)), ...held.keys()]) ids.add(id)
        const rows = new Map((await readHoldings(catalog, [...ids])).map((row) => [row.id, row]))
        for (const id of ids) act(id, rows.get(id))
        return
      } catch (error) {
        log.debug({ err: error }, 'could not read which endpoints to hold')
        await sleep(RETRY_MS)
      }
    }
  }

  function act(endpointId: string, row: EndpointHold | undefined): void {
    const operationId = row?.holding_operation_id ?? undefined
    const now = held.get(endpointId)
    if (now && now.operationId !== operationId) open(now, row?.compute_id ?? undefined)
    if (operationId !== undefined && now?.operationId !== operationId) hold(endpointId, operationId)
  }

  function hold(endpointId: string, operationId: string): void {
    const traffic = table.enter(endpointId)
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const recent = Date.now() - traffic.lastByteAt < UNSEEN_MS
    const woken = recent || [...traffic.sessions].some((session) => session.isSending())
    const entry: Held = { traffic, operationId, woken, written: Promise.resolve(), end }
    held.set(endpointId, entry)
    traffic.hold = { operationId, over, wake: () => wake(entry) }
    write(entry)
  }

  function wake(entry: Held): void {
    if (entry.woken) return
    entry.woken = true
    write(entry)
  }

  /** Acknowledges to the operation, one write at a time. A failed write is repeated when the catalog is back. */
  function write(entry: Held): void {
    entry.written = entry.written.then(async () => {
      const number = options.proxyNumber()
      if (number === undefined) return
      try {
        await options.writeActivity()
        await recordHold(catalog, entry.operationId, number, entry.woken)
      } catch (error) {
        log.warn({ err: error, endpoint: entry.traffic.endpointId }, 'could not say that an endpoint is held')
      }
    })
  }

  function open({ traffic, end }: Held, computeId: string | undefined): void {
    held.delete(traffic.endpointId)
    traffic.hold = undefined
    end()
    // Sessions with a compute that is gone are not resumed: they end with that compute's last message.
    for (const session of traffic.sessions) if (session.computeId === computeId) session.release()
    table.leave(traffic)
  }

  const unlisten = await catalog.listen('endpoint', (endpointId) => {
    if (endpointId === undefined) void renew()
    else {
      unread.add(endpointId)
      void read()
    }
  })

  async function renew(): Promise<void> {
    const before = [...held.values()]
    allUnread = true
    await read()
    for (const entry of before) if (held.get(entry.traffic.endpointId) === entry) write(entry)
  }

  return {
    async pass(traffic) {
      if (!traffic.hold) {
        unread.add(traffic.endpointId)
        await read()
      }
      traffic.hold?.wake()
      await traffic.hold?.over
    },
    renew,
    stop() {
      stopped = true
      unlisten()
    },
  }
}
