import type { Duplex } from 'node:stream'
import { ClientGone, ProxyError } from './errors.ts'
import { MESSAGE_HEAD, type Message, messageAt } from './messages.ts'
import { packetLength } from './startup.ts'

/** First byte of a TLS handshake record: the client begins with TLS directly. */
export const TLS_HANDSHAKE = 0x16

/** Limit of a login message: names, nonces, a proof, or a password. */
const MAX_LOGIN_BYTES = 4_096

/** A value parsed from the first bytes of a connection. */
export interface Frame<T> {
  readonly value: T
  /** Length in bytes. */
  readonly length: number
}

/**
 * Reads one packet without a type byte, and leaves the socket paused with later bytes unread. Returns 'tls' if the
 * client has begun a TLS handshake instead. Errors: malformed, too_slow after `ms`, ClientGone.
 */
export function readPacket(socket: Duplex, ms: number): Promise<Buffer | 'tls'> {
  return readFrame<Buffer | 'tls'>(socket, ms, (bytes) => {
    if (bytes[0] === TLS_HANDSHAKE) return { value: 'tls', length: 0 }
    const length = packetLength(bytes)
    if (length === 'invalid') return new ProxyError('malformed', { text: 'invalid length of startup packet' })
    return length !== undefined && bytes.length >= length ? { value: bytes.subarray(0, length), length } : undefined
  })
}

/** Reads one login message, and leaves the socket as `readPacket` does. Errors: as there. */
export function readMessage(socket: Duplex, ms: number): Promise<Message> {
  return readFrame(socket, ms, (bytes) => {
    const message = messageAt(bytes, 0, MAX_LOGIN_BYTES)
    if (message === 'invalid') return new ProxyError('malformed', { text: 'invalid message while logging in' })
    return message && { value: message, length: MESSAGE_HEAD + message.body.length }
  })
}

/**
 * Reads until `frameOf` returns a frame, and leaves the socket paused with later bytes unread.
 * Errors: those that `frameOf` returns, too_slow after `ms`, ClientGone.
 */
export function readFrame<T>(
  socket: Duplex,
  ms: number,
  frameOf: (bytes: Buffer) => Frame<T> | ProxyError | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0)
    const timer = setTimeout(() => done(() => reject(new ProxyError('too_slow'))), ms)

    function done(settle: () => void): void {
      clearTimeout(timer)
      socket.off('data', read).off('end', gone).off('close', gone)
      socket.pause()
      settle()
    }

    function gone(): void {
      done(() => reject(new ClientGone('closed before it had said what it wants')))
    }

    function read(chunk: Buffer): void {
      bytes = bytes.length > 0 ? Buffer.concat([bytes, chunk]) : chunk
      const frame = frameOf(bytes)
      if (frame instanceof ProxyError) return done(() => reject(frame))
      if (!frame) return
      done(() => resolve(frame.value))
      if (bytes.length > frame.length) socket.unshift(bytes.subarray(frame.length))
    }

    socket.on('data', read).on('end', gone).on('close', gone)
    if (socket.destroyed || socket.readableEnded) gone()
    else socket.resume()
  })
}
