import type { Socket } from 'node:net'
import type { ProxyError } from './errors.ts'
import { encodeError } from './messages.ts'

const LINGER_MS = 2_000

/**
 * Sends what is still to be sent, says goodbye, and gives the other side a moment to do so too: closing with unread bytes
 * would reset the connection, and with it what was just sent.
 */
export function closeGently(socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return
  const linger = (): void => {
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => clearTimeout(timer))
  }
  socket.removeAllListeners('data')
  socket.resume()
  socket.once('end', () => socket.destroySoon())
  if (socket.readableEnded) socket.destroySoon()
  else socket.once('finish', linger).end()
}

/** Tells the client why, and closes. */
export function refuse(socket: Socket, error: ProxyError): void {
  if (socket.writable) socket.write(encodeError(error))
  closeGently(socket)
}
