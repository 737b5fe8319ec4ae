import { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'

/** Close codes (RFC 6455, section 7.4.1). */
const [NORMAL, UNSUPPORTED_DATA] = [1000, 1003] as const

/** The bytes of the binary messages of a WebSocket, however they are cut. A text message ends it. */
export function webSocketStream(socket: WebSocket): Duplex {
  const stream = new Duplex({
    read: () => socket.resume(),
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
      socket.terminate()
      done(error)
    },
  })
  let refused = false
  socket.on('message', (data: RawData, isBinary) => {
    if (refused) return
    if (!isBinary) {
      refused = true
      socket.close(UNSUPPORTED_DATA, 'only binary messages are taken')
    } else if (!stream.push(data)) socket.pause()
  })
  socket.on('close', () => {
    stream.push(null)
    if (refused || stream.writableEnded) stream.destroy()
  })
  socket.on('error', () => stream.destroy())
  stream.on('error', () => {})
  return stream
}
