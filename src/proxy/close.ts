import type { Socket } from 'node:net'
import type { ProxyError } from './errors.ts'
import { encodeError } from './messages.ts'

const LINGER_MS = 2_000
/** A client that has stopped reading would keep its socket, and what is still to be sent, for ever. */
const MOST_MS = 60_000

/**
 * Sends what is still to be sent, says goodbye, and gives the other side a moment to do so too, a minute in all: closing with unread bytes
 * would reset the connection, and with it what was just sent.
 */
export function closeGently(socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return
  const destroyAfter = (ms: number): void => {
    const timer = setTimeout(() => socket.destroy(), ms)
    socket.once('close', () => clearTimeout(timer))
  }
  destroyAfter(MOST_MS)
  socket.removeAllListeners('data')
  socket.resume()
  socket.once('end', () => socket.destroySoon())
  if (socket.readableEnded) socket.destroySoon()
  else socket.once('finish', () => destroyAfter(LINGER_MS)).end()
}

/** Tells the client why, and closes. */
export function refuse(socket: Socket, error: ProxyError): void {
  if (socket.writable) socket.write(encodeError(error))
  closeGently(socket)
}
