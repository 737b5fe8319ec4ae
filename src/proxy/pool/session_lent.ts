/* A pooled client while it has a server connection: the path of its bytes. */
import { destroySoon, refuse } from '../wire/close.ts'
import type { PoolServer } from './server_interface.ts'
import { type PooledClient, toClosed, toIdle, toLent } from './session_state.ts'
import { encodeParameters } from './welcome.ts'

const NOTHING = Buffer.alloc(0)

/** @param bytes valid only until this returns */
export function begin(client: PooledClient, server: PoolServer, bytes: Buffer): void {
  toLent(client, server)
  client.isCancelled = false
  stopKeeping(client)
  client.sent.begin(client.requests.begun())
  server.lend(client.waiter.borrower)
  client.settings.applyTo(server)
  send(client, server, bytes)
}

/** @param bytes valid only until this returns */
export function send(client: PooledClient, server: PoolServer, bytes: Buffer): void {
  const { sent, requests, stream, asError } = client
  sent.add(bytes)
  try {
    client.isTerminated = requests.forward(server, bytes) || client.isTerminated
  } catch (error) {
    refuse(stream, asError(error))
    return abandon(client)
  }
  if (server.needsDrain()) stream.pause()
  if (client.server === server && server.isSettled()) settle(client)
  else if (client.isTerminated && server.isAnswered()) leave(client)
}

/** Sends the bytes received while the server connection was being reset. */
export function sendPending(client: PooledClient): void {
  if (!client.server || client.pending.length === 0) return
  resume(client)
  send(client, client.server, takePending(client))
}

/** Gives the server connection back, unless the server still needs the end of a message, as after a failed COPY. */
export function settle(client: PooledClient): void {
  const { server, requests, settings, stream } = client
  if (requests.isMidMessage()) return
  toIdle(client)
  stopKeeping(client)
  const restored = settings.restore()
  if (restored.length > 0) stream.write(encodeParameters(restored))
  server?.takeBack()
  if (client.isTerminated) leave(client)
  else resume(client)
}

/** Makes the messages sent so far final: they will not be sent to another server. */
export function stopKeeping({ sent, translator }: PooledClient): void {
  sent.drop()
  translator.settle()
}

export function takePending(client: PooledClient): Buffer {
  const { pending } = client
  const [only = NOTHING] = pending
  client.pending = []
  return pending.length > 1 ? Buffer.concat(pending) : only
}

export function resume({ stream }: PooledClient): void {
  if (stream.isPaused()) stream.resume()
}

/** Closes the stream of a client that has sent Terminate. */
export function leave(client: PooledClient): void {
  client.isTerminated = true
  destroySoon(client.stream)
}

/** Cancels and closes the server connection, whose pending messages are unknown or whose client is gone. */
export function abandon(client: PooledClient): void {
  const { server } = client
  toClosed(client)
  void server?.cancel()
  server?.close()
}
