import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Logger } from 'pino'
import type { ListenAddress } from '../network.ts'

/** Bursts of clients wait here, not at an error. The kernel takes the smaller of this and its own limit. */
const BACKLOG = 4096

/** Accepting begins again only when there is room for some. */
const ROOM_FOR_SOME = 16

/**
 * In the midst of a burst a process that has just accepted stands still for so long. Without, whoever is awake first takes a burst of eight
 * whole, and the sessions of a pool of clients would have one core for all their lives.
 */
const GIVE_WAY_MS = 0.25
const BURST_MS = 2

const never = new Int32Array(new SharedArrayBuffer(4))

/** Sockets, bound already, that several processes accept on. */
export interface SharedListeners {
  /** How many they are. */
  readonly among: number
  /** Answers the one of a place for `listen`: each time by a descriptor that is the asker's own. */
  socket(index: number): Promise<object>
}

export interface Listening {
  /** That of the first place. */
  readonly port: number
  /** Accepts no more. What waits on a shared socket is left to the others. */
  close(): void
}

/**
 * Accepts connections at several places. A socket that is bound may still be taken by whoever listens on it first: an optional place is left
 * out then, with a word in the log. Errors: those of a place that is not optional.
 */
export async function listenAt(
  places: readonly ListenAddress[],
  shared: SharedListeners | undefined,
  { log, ...options }: Pick<Options, 'room' | 'onClient'> & { readonly log: Logger },
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
      log.warn({ err: outcome.reason as unknown, ...places[index] }, 'the proxy does not listen there')
  const failed = begun.find((outcome, index) => outcome.status === 'rejected' && !places[index]?.isOptional)
  if (failed) {
    close()
    throw (failed as PromiseRejectedResult).reason
  }
  return { port: all[0]?.port ?? 0, close }
}

interface Options extends ListenAddress {
  /** Instead of host and port. */
  readonly shared: { readonly among: number; socket(): Promise<object> } | undefined
  /** For how many more connections there are descriptors. */
  readonly room: () => number
  readonly onClient: (client: Socket) => void
}

/**
 * Accepts connections. On a shared socket only while there is room: a process that has no descriptor left would throw away all that wait
 * there (libuv sheds load so), whoever else has room for them.
 * Errors: the port is taken (EADDRINUSE).
 */
async function startListening({ host, port, shared, room, onClient }: Options): Promise<Listening> {
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
        client.once('close', resume)
        giveWay()
        if (room() <= 0) pause()
      },
    )
    if (shared) opened.listen(await shared.socket(), BACKLOG)
    else opened.listen({ host, port, backlog: BACKLOG })
    await once(opened, 'listening')
    server = opened
    if (closed) pause()
    return opened
  }

  function giveWay(): void {
    if (shared && shared.among > 1 && performance.now() - acceptedAt < BURST_MS) Atomics.wait(never, 0, 0, GIVE_WAY_MS)
    acceptedAt = performance.now()
  }

  function pause(): void {
    server?.close()
    server = undefined
  }

  function resume(): void {
    if (server || isOpening || closed || room() < ROOM_FOR_SOME) return
    isOpening = true
    // What keeps it from listening again may be over when the next client has gone.
    void open()
      .catch(() => {})
      .finally(() => (isOpening = false))
  }

  const { port: chosen } = (await open()).address() as AddressInfo
  return {
    port: chosen,
    close() {
      closed = true
      pause()
    },
  }
}
