import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

/** Bursts of clients wait here, not at an error. The kernel takes the smaller of this and its own limit. */
const BACKLOG = 4096

/** Accepting begins again only when there is room for some. */
const ROOM_FOR_SOME = 16

/** Answers a socket, bound already, that other processes accept on as well: a descriptor that is this process' own, each time. */
export type SharedListener = () => Promise<object>

export interface Listening {
  readonly port: number
  /** Accepts no more. What waits on a shared socket is left to the others. */
  close(): void
}

/**
 * Accepts connections. On a shared socket only while there is room: a process that has no descriptor left would throw away all that wait
 * there (libuv sheds load so), whoever else has room for them.
 * @param shared instead of host and port
 * @param room for how many more connections there are descriptors
 * Errors: the port is taken (EADDRINUSE).
 */
export async function startListening(options: {
  readonly host: string
  readonly port: number
  readonly shared?: SharedListener | undefined
  readonly room: () => number
  readonly onClient: (client: Socket) => void
}): Promise<Listening> {
  const { host, port, shared, room, onClient } = options
  let server: Server | undefined
  let isOpening = false
  let closed = false

  async function open(): Promise<Server> {
    const opened = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 },
      (client) => {
        onClient(client)
        if (!shared) return
        client.once('close', resume)
        if (room() <= 0) pause()
      },
    )
    if (shared) opened.listen(await shared(), BACKLOG)
    else opened.listen({ host, port, backlog: BACKLOG })
    await once(opened, 'listening')
    server = opened
    if (closed) pause()
    return opened
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
