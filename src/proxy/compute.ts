import { connect, type Socket } from 'node:net'
import type { ComputeLocation } from '../catalog/endpoint.ts'
import { errorCode } from './messages.ts'

/**
 * What came of connecting to a compute: it answers; it is gone, stopping or not up yet; it has no room just now; or the
 * endpoint began to be held before anything was sent. Or nothing is known of it, since this process has no descriptor left to ask.
 */
export type Answer =
  | { readonly is: 'there'; readonly socket: Socket; readonly first: Buffer }
  | { readonly is: 'gone' | 'full' | 'held' | 'unasked'; readonly why: string }

export type ComputeAddress = Pick<ComputeLocation, 'host' | 'port'>

/** cannot_connect_now and too_many_connections, each sent as the very first message, before a client knows of anything. */
const CANNOT_CONNECT_NOW = '57P03'
const TOO_MANY_CONNECTIONS = '53300'

/** What an error of the socket says, if not that the compute is gone. A Unix socket whose queue of connections is full says EAGAIN. */
const MEANING: Readonly<Record<string, 'full' | 'unasked'>> = { EAGAIN: 'full', EMFILE: 'unasked', ENFILE: 'unasked' }

const MAX_FIRST_MESSAGE = 16_384

/** Opens a socket to a compute; a host that begins with a slash is the directory of its Unix socket, as in libpq. */
export function openCompute({ host, port }: ComputeAddress): Socket {
  const options = { allowHalfOpen: true, noDelay: true, keepAlive: true }
  return host.startsWith('/')
    ? connect({ ...options, path: `${host}/.s.PGSQL.${port}` })
    : connect({ ...options, host, port })
}

/**
 * Connects, sends the startup packet and waits for the first message or for `signal`.
 * @param isHeld asked right before the packet is sent: from then on the compute knows of the session
 */
export function connectCompute(
  address: ComputeAddress,
  startup: Buffer,
  isHeld: () => boolean,
  signal: AbortSignal,
): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = openCompute(address)
    let first: Buffer = Buffer.alloc(0)
    let settled = false

    function done(answer: Answer): void {
      if (settled) return
      settled = true
      signal.removeEventListener('abort', stopped)
      socket.off('data', read).off('end', ended).off('close', ended)
      socket.pause()
      if (answer.is !== 'there') socket.destroy()
      resolve(answer)
    }

    function read(chunk: Buffer): void {
      first = first.length > 0 ? Buffer.concat([first, chunk]) : chunk
      const code = errorCode(first)
      if (code === undefined && first.length < MAX_FIRST_MESSAGE) return
      if (code === CANNOT_CONNECT_NOW) done({ is: 'gone', why: 'it is starting up or shutting down' })
      else if (code === TOO_MANY_CONNECTIONS) done({ is: 'full', why: 'it has too many connections' })
      else done({ is: 'there', socket, first })
    }

    function ended(): void {
      done({ is: 'gone', why: 'it closed the connection' })
    }

    function stopped(): void {
      done({ is: 'gone', why: 'it did not answer in time' })
    }

    signal.addEventListener('abort', stopped)
    // Stays for the whole life of the socket: an error is always followed by 'close', on which the session acts.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      done({ is: MEANING[error.code ?? ''] ?? 'gone', why: error.message })
    })
    socket.once('connect', () => {
      if (isHeld()) done({ is: 'held', why: 'the endpoint is held' })
      else socket.write(startup)
    })
    socket.on('data', read).on('end', ended).on('close', ended)
  })
}
