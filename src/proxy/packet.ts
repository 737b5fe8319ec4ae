import type { Socket } from 'node:net'
import { ClientGone, ProxyError } from './errors.ts'
import { packetLength } from './startup.ts'

/** First byte of a TLS handshake record: a client that begins with TLS instead of asking for it. */
const TLS_HANDSHAKE = 0x16

/**
 * Reads one packet that has no type byte, and leaves the socket paused with whatever follows unread.
 * The answer is 'tls' if the client has begun a TLS handshake instead.
 * Errors: malformed, too_slow after `ms`, ClientGone.
 */
export function readPacket(socket: Socket, ms: number): Promise<Buffer | 'tls'> {
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
      if (bytes[0] === TLS_HANDSHAKE) return finish(0, 'tls')
      const length = packetLength(bytes)
      if (length === 'invalid')
        return done(() => reject(new ProxyError('malformed', { text: 'invalid length of startup packet' })))
      if (length !== undefined && bytes.length >= length) finish(length, bytes.subarray(0, length))
    }

    function finish(used: number, packet: Buffer | 'tls'): void {
      done(() => resolve(packet))
      if (bytes.length > used) socket.unshift(bytes.subarray(used))
    }

    socket.on('data', read).on('end', gone).on('close', gone)
    if (socket.destroyed || socket.readableEnded) gone()
    else socket.resume()
  })
}
