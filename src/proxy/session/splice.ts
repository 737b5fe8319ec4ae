import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { readBorrowed, writeBorrowed } from './borrowed.ts'
import { closeGently } from '../wire/close.ts'
import type { ProxyError } from '../wire/errors.ts'
import { encodeError, endsReady, endsWithGoodbye } from '../wire/messages.ts'
import type { ForwardedSession, Traffic } from '../suspend/traffic.ts'

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
 * Forwards bytes between a client and its compute, with back-pressure: each side is read only as fast as the other
 * takes. Bytes from the client are kept (one chunk; reading stops) before the compute is attached and while the
 * endpoint is paused.
 */
export function spliceSession(client: Duplex, traffic: Traffic): SplicedSession {
  let server: Socket | undefined
  let computeId: string | undefined
  let clientEnded = false
  let over = false
  /** The last chunk from the compute ended with ReadyForQuery: an error can be sent to the client. */
  let atRest = false
  /** The client has sent a request since, and no Terminate. */
  let hasAsked = false
  let abandon = (): void => {}
  const kept: Buffer[] = []

  function fromClient(chunk: Buffer): void {
    if (over) return
    traffic.lastByteAt = Date.now()
    traffic.fromClients += chunk.length
    traffic.hold?.wake()
    traffic.look(chunk)
    hasAsked = !endsWithGoodbye(chunk)
    if (server && !traffic.hold) {
      if (!writeBorrowed(server, chunk)) client.pause()
      return
    }
    kept.push(Buffer.from(chunk))
    client.pause()
  }

  function fromServer(chunk: Buffer): void {
    traffic.lastByteAt = Date.now()
    traffic.toClients += chunk.length
    atRest = endsReady(chunk)
    if (atRest) hasAsked = false
    if (!writeBorrowed(client, chunk)) server?.pause()
  }

  function release(): void {
    if (!server || traffic.hold) return
    let more = true
    for (const chunk of kept.splice(0)) more = server.write(chunk)
    if (clientEnded) server.end()
    else if (more) client.resume()
  }

  function close(): void {
    over = true
    closeGently(client)
  }

  const session: SplicedSession = {
    get computeId() {
      return computeId
    },
    isSending: () => !server || kept.length > 0 || server.writableLength > 0,
    release,
    attach(compute, first, id, abandoned = () => {}) {
      if (client.destroyed) {
        compute.destroy()
        return
      }
      client.off('data', fromClient)
      readBorrowed(client, fromClient)
      server = compute
      computeId = id
      abandon = abandoned
      fromServer(first)
      readBorrowed(compute, fromServer)
      compute.on('drain', () => {
        if (kept.length === 0) client.resume()
      })
      compute.once('end', () => compute.destroy())
      compute.once('close', close)
      client.on('drain', () => compute.resume())
      if (compute.destroyed) close()
      if (!client.writableNeedDrain) compute.resume()
      release()
    },
    end(why) {
      if ((atRest || !server) && client.writable) client.write(encodeError(why))
      server?.destroySoon()
      close()
    },
  }

  /** Has the query cancelled: Postgres detects a disconnected client only when it next sends to it. */
  function leave(): void {
    if (server && hasAsked) abandon()
    abandon = () => {}
  }

  traffic.sessions.add(session)
  traffic.connections += 1
  client.on('data', fromClient)
  client.once('end', () => {
    clientEnded = true
    leave()
    if (kept.length === 0) release()
  })
  client.once('close', () => {
    traffic.sessions.delete(session)
    leave()
    server?.destroySoon()
  })
  client.resume()
  return session
}
