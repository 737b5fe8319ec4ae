import type { Duplex } from 'node:stream'
import type { ProxyError } from './errors.ts'
import { encodeError } from './messages.ts'

const LINGER_MS = 2_000
/** A client that has stopped reading would keep its socket, and what is still to be sent, for ever. */
const MAX_MS = 60_000

/**
 * Sends what is still to be sent, says goodbye, and gives the other side a moment to do so too, a minute in all: closing with unread bytes
 * would reset the connection, and with it what was just sent.
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

/** Destroys a stream once everything is sent. */
export function destroySoon(socket: Duplex): void {
  if (socket.writableFinished) socket.destroy()
  else socket.once('finish', () => socket.destroy()).end()
}

/** Tells the client why, and closes. */
export function refuse(socket: Duplex, error: ProxyError): void {
  if (socket.writable) socket.write(encodeError(error))
  closeGently(socket)
}
