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

/** Views of its first bytes, by their number, up to the length of a small message: making one costs as much as copying that does. */
const beginnings = Array.from({ length: 1_024 }, (_, length) => incoming.subarray(0, length))

/** A chunk of so many bytes is likely one of many. */
const BULK = 4_096
/** So much makes a write worth its while. */
const ENOUGH = 49_152

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
  socket[ON_READ] = (length: number) => read(beginnings[length] ?? incoming.subarray(0, length))
  stream.pause()
}

/**
 * Writes a chunk that is valid only until this returns. The answer is that of `write`. Of bulk data what one turn of the event loop brings is
 * written as one: TLS brings it record by record, and a small write costs nearly as much as a large one.
 */
export function writeBorrowed(to: Duplex, chunk: Buffer): boolean {
  if (!(to instanceof Socket) || chunk.length > BYTES) return to.write(Buffer.from(chunk))
  if (to.writableLength === 0) {
    // It is encrypted before `write` returns.
    if (to instanceof TLSSocket) return to.write(chunk)
    if (chunk.length >= BULK) {
      to.cork()
      setImmediate(uncork, to)
    }
  }
  if (slab.used + chunk.length > slab.bytes.length) slab = free.pop() ?? newSlab()
  const begin = slab.used
  slab.used += chunk.copy(slab.bytes, begin)
  slab.unwritten++
  const more = to.write(slab.bytes.subarray(begin, slab.used), slab.written)
  if (to.writableLength >= ENOUGH) to.uncork()
  return more
}

const uncork = (socket: Socket): void => socket.uncork()

/** Where what is to be written is kept until it is, one chunk behind the other: an allocation for each would have the garbage collector at work. */
interface Slab {
  readonly bytes: Buffer
  used: number
  unwritten: number
  readonly written: () => void
}

/** So many are kept for later. */
const MAX_FREE = 16
const free: Slab[] = []
let slab = newSlab()

function newSlab(): Slab {
  const made: Slab = {
    bytes: Buffer.allocUnsafeSlow(2 * BYTES),
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
