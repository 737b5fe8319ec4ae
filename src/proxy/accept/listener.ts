import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Logger } from 'pino'
import type { ListenAddress } from '../../network.ts'

/** Bursts of connections queue here instead of failing. The kernel applies the smaller of this and its own limit. */
const BACKLOG = 4096

/** Free connections required before accepting resumes. */
const MIN_FREE_TO_RESUME = 16

/**
 * In a burst, a process sleeps this long after each accept. Otherwise the first process to wake accepts a whole burst
 * of eight, and all sessions of a client pool share one core for their lifetime.
 */
const YIELD_MS = 0.25
const BURST_MS = 2
const RETRY_MS = 1_000

const neverNotified = new Int32Array(new SharedArrayBuffer(4))

/** Bound sockets that several processes accept on. */
export interface SharedListeners {
  /** Number of processes. */
  readonly among: number
  /** Returns the socket of a place for `listen`, each time on a descriptor that the caller owns. */
  socket(index: number): Promise<object>
}

export interface Listening {
  /** The port of the first place. */
  readonly port: number
  /** Stops accepting. Connections queued on a shared socket are left to the other processes. */
  close(): void
}

/**
 * Accepts connections at several places. Another process may listen first on an address that both have bound: an
 * optional place is then skipped with a warning. Errors: those of a required place.
 */
export async function listenAt(
  places: readonly ListenAddress[],
  shared: SharedListeners | undefined,
  { log, ...options }: Pick<Options, 'freeConnections' | 'onClient'> & { readonly log: Logger },
): Promise<Listening> {
  const begun = await Promise.allSettled(
    places.map((place, index) =>
      startListening({
        ...place,
        ...options,
        shared: shared && { among: shared.among, socket: () => shared.socket(index) },
      }),
    ),
  )
  const all = begun.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const close = (): void => all.forEach((listening) => listening.close())
  for (const [index, outcome] of begun.entries())
    if (outcome.status === 'rejected' && places[index]?.isOptional)
      log.warn({ err: outcome.reason as unknown, ...places[index] }, 'skipped an optional listen address')
  const failed = begun.find((outcome, index) => outcome.status === 'rejected' && !places[index]?.isOptional)
  if (failed) {
    close()
    throw (failed as PromiseRejectedResult).reason
  }
  return { port: all[0]?.port ?? 0, close }
}

interface Options extends ListenAddress {
  /** Replaces host and port. */
  readonly shared: { readonly among: number; socket(): Promise<object> } | undefined
  /** Returns the number of connections that the free descriptors still allow. */
  readonly freeConnections: () => number
  readonly onClient: (client: Socket) => void
}

/**
 * Accepts connections. On a shared socket only while descriptors are free: a process without one would drop queued
 * connections (libuv sheds load this way) that other processes could serve.
 * Errors: the port is taken (EADDRINUSE).
 */
async function startListening({ host, port, shared, freeConnections, onClient }: Options): Promise<Listening> {
  let server: Server | undefined
  let isOpening = false
  let acceptedAt = -Infinity
  let closed = false

  async function open(): Promise<Server> {
    const opened = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 },
      (client) => {
        onClient(client)
        if (!shared) return
        client.once('close', acceptAgain)
        yieldToOthers()
        if (freeConnections() <= 0) stopAccepting()
      },
    )
    if (shared) opened.listen(await shared.socket(), BACKLOG)
    else opened.listen({ host, port, backlog: BACKLOG })
    await once(opened, 'listening')
    server = opened
    if (closed) stopAccepting()
    return opened
  }

  function yieldToOthers(): void {
    if (shared && shared.among > 1 && performance.now() - acceptedAt < BURST_MS)
      Atomics.wait(neverNotified, 0, 0, YIELD_MS)
    acceptedAt = performance.now()
  }

  function stopAccepting(): void {
    server?.close()
    server = undefined
  }

  function acceptAgain(): void {
    if (server || isOpening || closed || freeConnections() < MIN_FREE_TO_RESUME) return
    isOpening = true
    void open()
      .catch(() => void setTimeout(acceptAgain, RETRY_MS).unref())
      .finally(() => (isOpening = false))
  }

  const { port: chosen } = (await open()).address() as AddressInfo
  return {
    port: chosen,
    close() {
      closed = true
      stopAccepting()
    },
  }
}
