import { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import type { MemoryLimit, MemoryReservation } from './memory_limit.ts'

/** Close codes (RFC 6455, section 7.4.1). */
const [NORMAL, UNSUPPORTED_DATA] = [1000, 1003] as const

/** Limit of all bytes before the login: a startup packet and a password have some 14,000 at most. */
const MAX_BYTES_BEFORE_LOGIN = 65_536
/** Unforwarded bytes that are not counted. */
const UNCOUNTED_BYTES = 65_536

export interface WebSocketStream {
  readonly stream: Duplex
  /** The client has logged in: its messages may be large, within the limit of its endpoint. */
  readonly loggedIn: (endpointId: string) => void
}

/**
 * The byte stream of a WebSocket's binary messages. A text message or too many bytes end it.
 * @param connection of the WebSocket; a message is kept in memory from its first byte there until it is forwarded
 */
export function webSocketStream(socket: WebSocket, connection: Duplex, memoryLimit: MemoryLimit): WebSocketStream {
  let endpointId: string | undefined
  /** Bytes of an incomplete message; before the login, of all messages. */
  let unfinishedBytes = 0
  let reservation: MemoryReservation | undefined

  function count({ length }: Buffer): void {
    unfinishedBytes += length
    if (endpointId === undefined) {
      if (unfinishedBytes > MAX_BYTES_BEFORE_LOGIN) stream.destroy()
    } else if (unfinishedBytes > UNCOUNTED_BYTES) {
      reservation ??= memoryLimit.reserve(endpointId, () => stream.destroy())
      try {
        reservation.add(length)
      } catch {
        stream.destroy()
      }
    }
  }

  function release(): void {
    reservation?.release()
    reservation = undefined
  }

  const stream = new Duplex({
    read() {
      if (unfinishedBytes <= UNCOUNTED_BYTES) release()
      socket.resume()
    },
    write(chunk: Buffer, _encoding, done) {
      socket.send(chunk, done)
    },
    writev(chunks, done) {
      socket.send(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done)
    },
    final(done) {
      socket.close(NORMAL)
      done()
    },
    destroy(error, done) {
      release()
      socket.terminate()
      done(error)
    },
  })
  let refused = false
  socket.on('message', (data: RawData, isBinary) => {
    if (refused) return
    if (endpointId !== undefined) unfinishedBytes = 0
    if (!isBinary) {
      refused = true
      socket.close(UNSUPPORTED_DATA, 'only binary messages are taken')
    } else if (!stream.push(data)) socket.pause()
  })
  socket.on('close', () => {
    connection.off('data', count)
    stream.push(null)
    if (refused || stream.writableEnded) stream.destroy()
  })
  socket.on('error', () => stream.destroy())
  stream.on('error', () => {})
  connection.on('data', count)
  return {
    stream,
    loggedIn(id) {
      endpointId = id
      unfinishedBytes = 0
    },
  }
}
