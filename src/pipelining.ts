import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Limit of unanswered requests on one connection. Clients that wait for each answer have one. */
const MAX_UNANSWERED = 16

/**
 * Limits pipelining (RFC 9112, section 9.3.2). Node parses all requests of one read before the first is answered, and
 * buffers the answers to a client that does not read.
 * @returns counts a request; returns false over the limit: the connection is closed, and the request must not be
 * handled
 */
export function createPipelineLimit(): (request: IncomingMessage, response: ServerResponse) => boolean {
  const unanswered = new WeakMap<Socket, number>()
  return ({ socket }, response) => {
    if (socket.destroyed) return false
    const count = (unanswered.get(socket) ?? 0) + 1
    unanswered.set(socket, count)
    if (count > MAX_UNANSWERED) {
      socket.destroy()
      return false
    }
    response.once('close', () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1))
    return true
  }
}
