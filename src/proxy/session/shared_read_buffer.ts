/*
 * Forwards bytes through one reused read buffer. A stream allocates a buffer for every read and schedules work after
 * it. That is a large part of the cost of forwarding a small message, and with bulk data keeps most of a core busy with
 * garbage collection. Node avoids it for sockets that it connects itself (`onread` of net.connect), where pause,
 * resume, end and errors behave as usual. This module enables it for sockets that are already open.
 */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'

const BUFFER_BYTES = 65_536

/** The read buffer of all sockets: a chunk is processed before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)

/** Views of the buffer's first bytes, by length, for small messages: creating a view costs as much as copying them. */
const viewsByLength = Array.from({ length: 1_024 }, (_, length) => readBuffer.subarray(0, length))

/** A chunk of this size is likely part of bulk data. */
const BULK_BYTES = 4_096
/** Buffered bytes that are written at once. */
const FLUSH_BYTES = 49_152

/** The fields that `onread` sets in a socket, under Node's own symbols. */
interface Inside {
  _handle?: { useUserBuffer?: (into: Buffer) => void } | null
  [symbol: symbol]: unknown
}
const [BUFFER, ON_READ] = ['kBuffer', 'kBufferCb'].map((name) =>
  Object.getOwnPropertySymbols(new Socket()).find(({ description }) => description === name),
)

/**
 * Passes incoming bytes to `read` as chunks of the shared buffer, each valid until `read` returns. Bytes buffered
 * earlier come first. The socket is left paused. Streams that are no sockets, and Node versions without these fields,
 * fall back to 'data' events.
 */
export function readShared(stream: Duplex, read: (chunk: Buffer) => void): void {
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
  handle.useUserBuffer(readBuffer)
  socket[BUFFER] = readBuffer
  socket[ON_READ] = (length: number) => read(viewsByLength[length] ?? readBuffer.subarray(0, length))
  stream.pause()
}

/**
 * Writes a chunk that is valid only until this returns. Returns the result of `write`. Bulk data of one turn of the
 * event loop is combined into one write: TLS delivers it record by record, and a small write costs nearly as much as a
 * large one.
 */
export function writeShared(to: Duplex, chunk: Buffer): boolean {
  if (!(to instanceof Socket) || chunk.length > BUFFER_BYTES) return to.write(Buffer.from(chunk))
  if (to.writableLength === 0) {
    // TLS encrypts the chunk before `write` returns.
    if (to instanceof TLSSocket) return to.write(chunk)
    if (chunk.length >= BULK_BYTES) {
      to.cork()
      setImmediate(uncork, to)
    }
  }
  if (slab.used + chunk.length > slab.bytes.length) slab = free.pop() ?? newSlab()
  const begin = slab.used
  slab.used += chunk.copy(slab.bytes, begin)
  slab.unwritten++
  const more = to.write(slab.bytes.subarray(begin, slab.used), slab.written)
  if (to.writableLength >= FLUSH_BYTES) to.uncork()
  return more
}

const uncork = (socket: Socket): void => socket.uncork()

/** A buffer of chunks that wait for their write. An allocation per chunk would load the garbage collector. */
interface Slab {
  readonly bytes: Buffer
  used: number
  unwritten: number
  readonly written: () => void
}

/** Limit of slabs kept for reuse. */
const MAX_FREE = 16
const free: Slab[] = []
let slab = newSlab()

function newSlab(): Slab {
  const made: Slab = {
    bytes: Buffer.allocUnsafeSlow(2 * BUFFER_BYTES),
    used: 0,
    unwritten: 0,
    written() {
      made.unwritten--
      if (made.unwritten > 0) return
      made.used = 0
      if (made !== slab && free.length < MAX_FREE) free.push(made)
    },
  }
  return made
}
