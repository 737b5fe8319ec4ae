import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { type WebSocket, WebSocketServer } from 'ws'
import type { ClientAddresses } from '../accept/client_addresses.ts'
import { STAGE_MS } from '../accept/first_packets.ts'
import type { Limits } from '../accept/limits.ts'
import { closeGently, refuse } from '../wire/close.ts'
import { ClientGone } from '../wire/errors.ts'
import { readPacket } from '../wire/packet.ts'
import { asProxyError, type ReportContext } from '../wire/report.ts'
import { GSSENC_REQUEST, packetCode, SSL_REQUEST } from '../wire/startup.ts'
import { createBodyParser } from './body_parser.ts'
import { endpointHost } from './connection_string.ts'
import { createMemoryLimit, type MemoryLimit } from './memory_limit.ts'
import type { Serve } from './open_session.ts'
import { createPreLoginLimits } from './pre_login_limits.ts'
import { Refusal } from './refusal.ts'
import { createSharedSessions } from './shared_sessions.ts'
import { answerSql, sendRefusal, type SqlContext } from './sql.ts'
import { webSocketStream } from './websocket.ts'

const MAX_BODY_MS = 60_000
const MAX_IDLE_MS = 15_000
const MAX_HEADER_BYTES = 32_768
/** Read-ahead of a body before the client's login; the last read may exceed it. */
const READ_AHEAD_BYTES = 16_384
/** Limit of a WebSocket message, which is kept until it is complete. */
const MAX_MESSAGE_BYTES = 64 * 2 ** 20

const METHODS = 'OPTIONS, POST'
const HEADERS = [
  'Authorization',
  'Content-Type',
  'Neon-Connection-String',
  'Neon-Raw-Text-Output',
  'Neon-Array-Mode',
  'Neon-Pool-Opt-In',
  'Neon-Batch-Isolation-Level',
  'Neon-Batch-Read-Only',
  'Neon-Batch-Deferrable',
].join(', ')

/**
 * The server for the serverless driver: SQL over HTTP at `/sql`, and the Postgres protocol in a WebSocket at any path.
 */
export interface SqlServer {
  /** Takes a client after its TLS handshake. */
  accept(socket: TLSSocket): void
  /** Closes idle connections at once, and others after their responses. WebSockets end with their sessions. */
  stop(): void
}

export interface SqlServerContext extends ReportContext {
  readonly serve: Serve
  /** The suffix of endpoint host names. */
  readonly domain: string
  readonly clientAddresses: ClientAddresses
  readonly limits: Limits
}

export function createSqlServer(shared: SqlServerContext): SqlServer {
  const unanswered = new Set<ServerResponse>()
  let stopped = false
  const memoryLimit = createMemoryLimit()
  const parser = createBodyParser()
  const context: SqlContext = { ...shared, sessions: createSharedSessions(shared.serve), parser, memoryLimit }
  const preLoginLimits = createPreLoginLimits()
  const http = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: STAGE_MS,
      requestTimeout: MAX_BODY_MS,
      keepAliveTimeout: MAX_IDLE_MS,
      connectionsCheckingInterval: 1_000,
      highWaterMark: READ_AHEAD_BYTES,
    },
    (request, response) => {
      response.setHeader('access-control-allow-origin', '*')
      response.setHeader('neon-request-id', randomUUID())
      if (stopped) response.setHeader('connection', 'close')
      unanswered.add(response)
      response.once('close', () => unanswered.delete(response))
      if (!preLoginLimits.began(request.socket, response)) return
      answer(context, request, response, () => {
        preLoginLimits.loggedIn(request.socket)
        shared.limits.loggedIn(request.socket, shared.clientAddresses.of(request.socket))
      })
    },
  )
  // The server starts its timeout checks at 'listening', an event that it never emits by itself.
  http.emit('listening')

  const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_MESSAGE_BYTES })
  http.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    preLoginLimits.loggedIn(socket)
    webSockets.handleUpgrade(
      request,
      socket,
      head,
      (webSocket) => void serveWebSocket(shared, memoryLimit, webSocket, request),
    )
  })

  return {
    accept(socket) {
      preLoginLimits.add(socket)
      http.emit('connection', socket)
    },
    stop() {
      stopped = true
      for (const response of unanswered) if (!response.headersSent) response.setHeader('connection', 'close')
      http.close()
      context.sessions.stop()
    },
  }
}

function answer(context: SqlContext, request: IncomingMessage, response: ServerResponse, onLoggedIn: () => void): void {
  const path = request.url?.replace(/\?.*$/s, '')
  if (path !== '/sql') sendRefusal(response, new Refusal(404, 'Not found: SQL is accepted at /sql.'))
  else if (request.method === 'POST') void answerSql(context, request, response, onLoggedIn)
  else {
    response.setHeader('allow', METHODS)
    if (request.method === 'OPTIONS')
      response
        .writeHead(200, {
          'access-control-allow-methods': METHODS,
          'access-control-allow-headers': HEADERS,
          'access-control-max-age': '86400',
        })
        .end()
    else sendRefusal(response, new Refusal(405, `/sql takes POST, not ${request.method}.`))
  }
}

/** Serves a client of the Postgres protocol in a WebSocket, which is within TLS and needs no further encryption. */
async function serveWebSocket(
  context: SqlServerContext,
  memoryLimit: MemoryLimit,
  webSocket: WebSocket,
  request: IncomingMessage,
): Promise<void> {
  const { stream, loggedIn } = webSocketStream(webSocket, request.socket, memoryLimit)
  try {
    await declineEncryption(stream)
  } catch (error) {
    if (error instanceof ClientGone) closeGently(stream)
    else refuse(stream, asProxyError(error, context))
    return
  }
  const address = context.clientAddresses.ofRequest(request)
  const serverName = hostOf(request, context.domain)
  await context.serve({
    stream,
    address,
    serverName,
    authentication: 'password',
    binding: undefined,
    onLoggedIn(endpointId) {
      loggedIn(endpointId)
      context.limits.loggedIn(request.socket, context.clientAddresses.of(request.socket))
    },
  })
}

/**
 * Answers 'N' to requests for encryption, and leaves the next packet unread. Errors: malformed, too_slow, ClientGone.
 */
async function declineEncryption(stream: Duplex): Promise<void> {
  for (let turn = 0; turn < 2; turn++) {
    const packet = await readPacket(stream, STAGE_MS)
    const asks = packet !== 'tls' && [SSL_REQUEST, GSSENC_REQUEST].includes(packetCode(packet))
    if (asks) stream.write('N')
    else {
      if (packet !== 'tls') stream.unshift(packet)
      return
    }
  }
}

/** The host name of a WebSocket's endpoint: from the Host header, or from the `address` parameter of the request. */
function hostOf({ headers, url = '' }: IncomingMessage, domain: string): string | undefined {
  const asked = /[?&]address=([^&]*)/.exec(url)?.[1]
  const named = [headers.host, asked].map((host) => endpointHost(host)?.replace(/(:|%3A)\d*$/i, ''))
  return named.find((host) => host?.toLowerCase().endsWith(`.${domain}`))
}
