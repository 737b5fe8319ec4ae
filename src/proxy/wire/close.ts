import type { Duplex } from 'node:stream'
import type { ProxyError } from './errors.ts'
import { encodeError } from './messages.ts'

const LINGER_MS = 2_000
/** Without this limit a client that stops reading keeps its socket and unsent bytes forever. */
const MAX_MS = 60_000

/**
 * Flushes pending writes, ends the socket, and waits for the peer to end: two seconds after the flush, a minute in
 * total. Closing with unread bytes would reset the connection and lose the last writes.
 */
export function closeGently(socket: Duplex): void {
  if (socket.destroyed || socket.writableEnded) return
  const destroyAfter = (ms: number): void => {
    const timer = setTimeout(() => socket.destroy(), ms)
    socket.once('close', () => clearTimeout(timer))
  }
  destroyAfter(MAX_MS)
  socket.removeAllListeners('data')
  socket.resume()
  socket.once('end', () => destroySoon(socket))
  if (socket.readableEnded) destroySoon(socket)
  else socket.once('finish', () => destroyAfter(LINGER_MS)).end()
}

/** Destroys a stream once all pending writes are flushed. */
export function destroySoon(socket: Duplex): void {
  if (socket.writableFinished) socket.destroy()
  else socket.once('finish', () => socket.destroy()).end()
}

/** Sends the error to the client, and closes. */
export function refuse(socket: Duplex, error: ProxyError): void {
  if (socket.writable) socket.write(encodeError(error))
  closeGently(socket)
}
