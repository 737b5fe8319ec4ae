import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that may be unanswered at once. Clients that wait for their answers have one. */
const MAX_UNANSWERED = 16

/**
 * Limits pipelining (RFC 9112, section 9.3.2). Node parses all requests that one read brings before the first is answered, and keeps the
 * answers of a client that does not read.
 * @returns counts a request; false for one over the limit, whose connection is closed and which must not be worked on
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
