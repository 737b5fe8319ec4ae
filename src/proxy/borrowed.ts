/*
 * Passing bytes on in a buffer that is used again for the next. A stream allocates a buffer for every read and schedules work after it, which
 * is a good part of what it costs to pass a small message on, and with bulk data leaves most of a core to the garbage collector. Node does
 * without for sockets that it connects itself (`onread` of net.connect), where pause and resume, end and errors are as ever; here that is
 * switched on for sockets which are open already.
 */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'

const BYTES = 65_536

/** Every socket is read into this: what one has brought is dealt with before the next is read. */
const incoming = Buffer.allocUnsafeSlow(BYTES)
let outgoing = Buffer.allocUnsafeSlow(BYTES)

/** What `onread` comes down to in a socket, under symbols of Node's own. */
interface Inside {
  _handle?: { useUserBuffer?: (into: Buffer) => void } | null
  [symbol: symbol]: unknown
}
const [BUFFER, ON_READ] = ['kBuffer', 'kBufferCb'].map((name) =>
  Object.getOwnPropertySymbols(new Socket()).find(({ description }) => description === name),
)

/**
 * From now on has what comes given to `read`, as chunks that are borrowed: valid until it returns. What came before is first. The socket is
 * left paused. No stream but a socket can do this, and perhaps no other Node: then what comes is given as 'data', which is no less right.
 */
export function readBorrowed(stream: Duplex, read: (chunk: Buffer) => void): void {
  stream.pause()
  const socket: Inside | undefined = stream instanceof Socket ? (stream as unknown as Inside) : undefined
  const { _handle: handle } = socket ?? {}
  if (!socket || !handle?.useUserBuffer || BUFFER === undefined || ON_READ === undefined) {
    stream.on('data', read).pause()
    return
  }
  for (;;) {
    const chunk = stream.read() as Buffer | null
    if (!chunk) break
    read(chunk)
  }
  handle.useUserBuffer(incoming)
  socket[BUFFER] = incoming
  socket[ON_READ] = (length: number) => read(incoming.subarray(0, length))
  stream.pause()
}

/** Writes a chunk that is valid only until this returns. The answer is that of `write`. */
export function writeBorrowed(to: Duplex, chunk: Buffer): boolean {
  if (!(to instanceof Socket) || to.writableLength > 0 || chunk.length > BYTES) return to.write(Buffer.from(chunk))
  // It is encrypted, or copied, before `write` returns.
  if (to instanceof TLSSocket) return to.write(chunk)
  chunk.copy(outgoing)
  const more = to.write(outgoing.subarray(0, chunk.length))
  // What the kernel did not take at once goes on being read from there.
  if (to.writableLength > 0) outgoing = Buffer.allocUnsafeSlow(BYTES)
  return more
}
