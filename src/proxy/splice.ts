import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { readBorrowed, writeBorrowed } from './borrowed.ts'
import { closeGently } from './close.ts'
import type { ProxyError } from './errors.ts'
import { encodeError, endsReady, endsWithGoodbye } from './messages.ts'
import type { ForwardedSession, Traffic } from './traffic.ts'

export interface SplicedSession extends ForwardedSession {
  /**
   * Joins the client to its compute.
   * @param first what the compute has sent already
   * @param abandoned told when the client is gone while the compute is at work for it
   */
  attach(server: Socket, first: Buffer, computePid: number | undefined, abandoned?: () => void): void
  /** Ends the session; the client is told why if nothing is under way to it. */
  end(why: ProxyError): void
}

/**
 * Moves bytes between a client and its compute, with back-pressure: each side is read only as fast as the other takes.
 * What the client sends before there is a compute, or while its endpoint is held, is kept (one chunk; reading stops).
 */
export function spliceSession(client: Duplex, traffic: Traffic): SplicedSession {
  let server: Socket | undefined
  let computePid: number | undefined
  let clientEnded = false
  let over = false
  /** The compute has answered all that it has begun to answer: the client can be told something. */
  let atRest = false
  /** The client has asked for something since, and has not said goodbye. */
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
    get computePid() {
      return computePid
    },
    isSending: () => !server || kept.length > 0 || server.writableLength > 0,
    release,
    attach(compute, first, pid, abandoned = () => {}) {
      if (client.destroyed) {
        compute.destroy()
        return
      }
      client.off('data', fromClient)
      readBorrowed(client, fromClient)
      server = compute
      computePid = pid
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

  /** Postgres itself does not notice that a client is gone before it has something to tell it. */
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
