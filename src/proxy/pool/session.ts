/* The session of a pooled client; session_state.ts describes its states. */
import type { Duplex } from 'node:stream'
import { readShared, writeShared } from '../session/shared_read_buffer.ts'
import { closeGently } from '../wire/close.ts'
import { DELETED, ProxyError } from '../wire/errors.ts'
import { encodeError } from '../wire/messages.ts'
import type { ForwardedSession } from '../suspend/traffic.ts'
import type { Borrower } from './borrower.ts'
import { createClientSettings } from './client_settings.ts'
import type { Parameters } from './parameters.ts'
import type { Pool } from './pool.ts'
import { createRequests } from './requests.ts'
import { createSent, MAX_KEPT } from './sent.ts'
import { abandon, begin, send, sendPending, settle } from './session_lent.ts'
import { loseServer } from './session_lost.ts'
import { isOneRequest } from './session_reset.ts'
import { type PooledClient, toClosed } from './session_state.ts'
import { beginPending, failWaiting, needsServerOnly, processPending, sendsOneRequest } from './session_waiting.ts'
import { createTranslator } from './translate.ts'

export interface PooledSession extends ForwardedSession {
  /** Cancels the client's statement that runs, or waits to run. */
  cancel(): Promise<void>
  /** Ends the session. The client gets the error unless a server connection is lent to it. */
  end(why: ProxyError): void
}

/**
 * @param parameters the settings that the client has chosen
 * @param asError makes the client's error of any error, and counts and logs it
 */
export function pooledSession(
  stream: Duplex,
  pool: Pool,
  parameters: Parameters,
  asError: (error: unknown) => ProxyError,
): PooledSession {
  const { traffic } = pool
  const client = createClient(stream, pool, parameters, asError)
  const session: PooledSession = {
    computeId: undefined,
    isSending: () => client.state === 'waiting' || client.server?.isSending() === true,
    resume: () => {},
    endDeleted: () => session.end(new ProxyError('stopping', DELETED)),
    async cancel() {
      const { server, giveUp } = client
      client.isCancelled = server?.isResetting() === true
      if (!giveUp) return await server?.cancel()
      giveUp()
      failWaiting(client, new ProxyError('cancelled'))
    },
    end(why) {
      if (!client.server && stream.writable) stream.write(encodeError(why))
      closeGently(stream)
    },
  }
  traffic.sessions.add(session)
  traffic.connections += 1
  readShared(stream, (chunk) => read(client, chunk))
  stream.on('drain', () => client.server?.resume())
  stream.once('end', () => closeGently(stream))
  stream.once('close', () => {
    traffic.sessions.delete(session)
    close(client)
  })
  stream.resume()
  return session
}

function createClient(
  stream: Duplex,
  pool: Pool,
  parameters: Parameters,
  asError: (error: unknown) => ProxyError,
): PooledClient {
  const translator = createTranslator(pool.statements)
  const sent = createSent()
  const settings = createClientSettings(parameters, () => pool.configured())
  const borrower: Borrower = {
    receive(bytes) {
      sent.answered()
      translator.settle()
      pool.traffic.toClients += bytes.length
      return writeShared(stream, bytes)
    },
    parameter: (name, value) => settings.note(name, value),
    settled: () => settle(client),
    answered: () => sent.begin(client.requests.begun()),
    lost: (loss) => loseServer(client, loss),
    drained: () => stream.resume(),
    unprepared: (statement, name) => translator.forget(statement, name),
    deallocated: () => client.server && translator.forgetAll(client.server),
    discarded: () => settings.discard(),
    onReset: () => sendPending(client),
  }
  const client: PooledClient = {
    stream,
    pool,
    sent,
    settings,
    translator,
    requests: createRequests(translator),
    texts: {
      textOf: (name) => translator.textOf(name),
      declare: (name, definition) => translator.declare(name, definition),
      hasEscapes: () => parameters.get('standard_conforming_strings') === 'off',
    },
    asError,
    waiter: {
      borrower,
      sendsOneRequest: () => sendsOneRequest(client),
      applicationName: () => parameters.get('application_name') ?? '',
      onServer: (server) => beginPending(client, server),
      onError: (error) => failWaiting(client, error),
    },
    state: 'idle',
    giveUp: undefined,
    server: undefined,
    aborted: undefined,
    failure: undefined,
    pending: [],
    waitingLength: 0,
    isCancelled: false,
    isTerminated: false,
  }
  return client
}

function read(client: PooledClient, chunk: Buffer): void {
  const { stream, pool, server, waiter } = client
  const { traffic } = pool
  if (stream.writableEnded) return
  traffic.lastByteAt = Date.now()
  traffic.fromClients += chunk.length
  traffic.pause?.wake()
  traffic.look(chunk)
  if (server && !server.isResetting()) return send(client, server, chunk)
  if (server) {
    stream.pause()
    return void client.pending.push(Buffer.from(chunk))
  }
  const idle = needsServerOnly(client, chunk)
    ? (pool.takeFor(waiter.borrower) ?? (isOneRequest(chunk) ? pool.takeUsed() : undefined))
    : undefined
  if (idle) return begin(client, idle, chunk)
  client.pending.push(Buffer.from(chunk))
  if (client.state !== 'waiting') return processPending(client)
  client.waitingLength += chunk.length
  if (client.waitingLength > MAX_KEPT) stream.pause()
}

function close(client: PooledClient): void {
  const { giveUp, server, translator } = client
  giveUp?.()
  translator.close()
  // A client that sent Terminate may have sent statements before it.
  if (!client.isTerminated) return abandon(client)
  toClosed(client)
  server?.takeBack()
}
