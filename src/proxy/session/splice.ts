import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ForwardedSession, Traffic } from '../suspend/traffic.ts'
import { closeGently } from '../wire/close.ts'
import type { Reader } from '../wire/reader.ts'
import { DELETED, ProxyError } from '../wire/errors.ts'
import { encodeError, endsWithReadyForQuery, endsWithTerminate } from '../wire/messages.ts'
import { createWriteErrorReader } from './write_errors.ts'
import { readShared, writeShared } from './shared_read_buffer.ts'

export interface SplicedSession extends ForwardedSession {
  /**
   * Connects the client to its compute.
   * @param first bytes that the compute has sent already
   * @param abandoned called when the client disconnects while the compute works for it
   */
  attach(server: Socket, first: Buffer, computeId: string | undefined, abandoned?: () => void): void
  /** Ends the session. The client gets the error unless an answer to it is in progress. */
  end(why: ProxyError): void
}

/**
 * The state of a session: `waiting` until its compute is attached, then `joined`, at last `closing`, in which nothing
 * from the client is read. A chunk from the client is kept while it waits, and while the endpoint is paused.
 */
interface Splice {
  readonly client: Duplex
  readonly traffic: Traffic
  /** undefined while waiting. */
  server: Socket | undefined
  computeId: string | undefined
  readonly kept: Buffer[]
  isClosing: boolean
  clientEnded: boolean
  /** The last chunk from the compute ended with ReadyForQuery: an error can be sent to the client. */
  atRest: boolean
  /** While its compute refuses writes: replaces the errors of those. Begins between two messages. */
  reader: Reader | undefined
  /** The client has sent a request since, and no Terminate. */
  hasAsked: boolean
  /** Called once, when the client disconnects while the compute works for it. */
  abandoned: () => void
}

/**
 * Forwards bytes between a client and its compute, with back-pressure: each side is read only as fast as the other
 * takes. Bytes from the client are kept (one chunk; reading stops) before the compute is attached and while the
 * endpoint is paused.
 */
export function spliceSession(client: Duplex, traffic: Traffic): SplicedSession {
  const splice: Splice = {
    client,
    traffic,
    server: undefined,
    computeId: undefined,
    kept: [],
    isClosing: false,
    clientEnded: false,
    atRest: false,
    reader: undefined,
    hasAsked: false,
    abandoned: () => {},
  }
  const fromClient = (chunk: Buffer): void => forwardToServer(splice, chunk)
  const session: SplicedSession = {
    get computeId() {
      return splice.computeId
    },
    isSending: () => !splice.server || splice.kept.length > 0 || splice.server.writableLength > 0,
    resume: () => resume(splice),
    endDeleted: () => session.end(new ProxyError('stopping', DELETED)),
    attach(compute, first, id, abandoned = () => {}) {
      if (client.destroyed) {
        compute.destroy()
        return
      }
      client.off('data', fromClient)
      readShared(client, fromClient)
      splice.server = compute
      splice.computeId = id
      splice.abandoned = abandoned
      join(splice, compute, first)
    },
    end(why) {
      if ((splice.atRest || !splice.server) && client.writable) client.write(encodeError(why))
      splice.server?.destroySoon()
      close(splice)
    },
  }

  traffic.sessions.add(session)
  traffic.connections += 1
  client.on('data', fromClient)
  client.once('end', () => {
    splice.clientEnded = true
    leave(splice)
    if (splice.kept.length === 0) resume(splice)
  })
  client.once('close', () => {
    traffic.sessions.delete(session)
    leave(splice)
    splice.server?.destroySoon()
  })
  client.resume()
  return session
}

function join(splice: Splice, compute: Socket, first: Buffer): void {
  const { client, kept } = splice
  const fromServer = (chunk: Buffer): void => forwardToClient(splice, compute, chunk)
  fromServer(first)
  readShared(compute, fromServer)
  compute.on('drain', () => {
    if (kept.length === 0) client.resume()
  })
  compute.once('end', () => compute.destroy())
  compute.once('close', () => close(splice))
  client.on('drain', () => compute.resume())
  if (compute.destroyed) close(splice)
  if (!client.writableNeedDrain) compute.resume()
  resume(splice)
}

function forwardToServer(splice: Splice, chunk: Buffer): void {
  if (splice.isClosing) return
  const { client, server, traffic } = splice
  traffic.lastByteAt = Date.now()
  traffic.fromClients += chunk.length
  traffic.pause?.wake()
  traffic.look(chunk)
  splice.hasAsked = !endsWithTerminate(chunk)
  if (server && !traffic.pause) {
    if (!writeShared(server, chunk)) client.pause()
    return
  }
  splice.kept.push(Buffer.from(chunk))
  client.pause()
}

function forwardToClient(splice: Splice, server: Socket, chunk: Buffer): void {
  const { client, traffic } = splice
  traffic.lastByteAt = Date.now()
  traffic.toClients += chunk.length
  if (traffic.writesRefused && splice.atRest) splice.reader ??= readerOf(splice, server)
  splice.atRest = endsWithReadyForQuery(chunk)
  if (splice.atRest) splice.hasAsked = false
  if (splice.reader) {
    splice.reader.read(chunk)
    if (splice.atRest && !traffic.writesRefused) splice.reader = undefined
  } else if (!writeShared(client, chunk)) server.pause()
}

function readerOf({ client, traffic }: Splice, server: Socket): Reader {
  return createWriteErrorReader(
    () => traffic.writesRefused,
    (bytes) => {
      if (!writeShared(client, bytes)) server.pause()
    },
    () => server.destroy(),
  )
}

/** Forwards the kept bytes, unless the session waits or is paused. */
function resume({ client, server, traffic, kept, clientEnded }: Splice): void {
  if (!server || traffic.pause) return
  let more = true
  for (const chunk of kept.splice(0)) more = server.write(chunk)
  if (clientEnded) server.end()
  else if (more) client.resume()
}

/** Has the query cancelled: Postgres detects a disconnected client only when it next sends to it. */
function leave(splice: Splice): void {
  if (splice.server && splice.hasAsked) splice.abandoned()
  splice.abandoned = () => {}
}

function close(splice: Splice): void {
  splice.isClosing = true
  closeGently(splice.client)
}
