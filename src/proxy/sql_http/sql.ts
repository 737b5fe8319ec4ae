import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { ClientAddresses } from '../accept/client_addresses.ts'
import { ClientGone } from '../wire/errors.ts'
import type { BodyParser } from './body_parser.ts'
import { type HttpLogin, parseConnectionString } from './connection_string.ts'
import { type MemoryLimit, type MemoryReservation, tooMuchMemory } from './memory_limit.ts'
import { PostgresError, Refusal, refusalBody } from './refusal.ts'
import { readBody, type SqlRequest } from './request.ts'
import type { SharedSessions } from './shared_sessions.ts'
import type { Result, HttpStatement } from './statement.ts'

/** A client that does not take its response in this time is disconnected. */
const MAX_SENDING_MS = 60_000

/** SQLSTATEs of failures of the compute, or of the way to it, rather than of the request. */
const TROUBLE = /^(08001|53|57P|58|XX)/

export interface SqlContext {
  /** The suffix of endpoint host names. */
  readonly domain: string
  readonly clientAddresses: ClientAddresses
  readonly log: Logger
  readonly sessions: SharedSessions
  readonly parser: BodyParser
  readonly memoryLimit: MemoryLimit
}

/**
 * Answers a request to `/sql`: logs in by its headers, and only then reads its body. Never rejects.
 * @param onLoggedIn called when the login has succeeded
 */
export async function answerSql(
  context: SqlContext,
  request: IncomingMessage,
  response: ServerResponse,
  onLoggedIn: () => void,
): Promise<void> {
  const over = new AbortController()
  response.once('close', () => over.abort(new ClientGone('gone before it was answered')))
  let taken: { readonly body: Buffer; readonly reservation: MemoryReservation } | undefined
  try {
    const client = { ...loginOf(context, request), address: context.clientAddresses.ofRequest(request) }
    const answered = await context.sessions.use(client, over.signal, async (session, endpointId) => {
      onLoggedIn()
      taken ??= await readCountedBody(context, endpointId, request, response, over)
      const asked = await context.parser.parse(endpointId, request.headers, taken.body, over.signal)
      return answerOf(asked, await session.run(framed(asked)))
    })
    taken?.reservation.keep(Buffer.byteLength(answered))
    over.signal.throwIfAborted()
    over.signal.addEventListener('abort', () => response.destroy())
    send(response, 200, answered)
  } catch (thrown) {
    const error: unknown = over.signal.aborted ? over.signal.reason : thrown
    if (error instanceof ClientGone) response.destroy()
    else sendRefusal(response, asRefusal(error, context))
  }
}

/**
 * Reads the body. Its bytes, and those of the answer, count as used memory until the response is sent, or until they
 * must be released: then the request fails.
 */
async function readCountedBody(
  { memoryLimit }: SqlContext,
  endpointId: string,
  request: IncomingMessage,
  response: ServerResponse,
  over: AbortController,
): Promise<{ body: Buffer; reservation: MemoryReservation }> {
  const reservation = memoryLimit.reserve(endpointId, () => over.abort(tooMuchMemory()))
  response.once('close', () => reservation.release())
  if (response.destroyed) reservation.release()
  return { body: await readBody(request, reservation, over.signal), reservation }
}

/** Errors: Refusal. */
function loginOf({ domain }: SqlContext, { headers }: IncomingMessage): HttpLogin {
  if (headers.authorization?.toLowerCase().startsWith('bearer '))
    throw new Refusal(400, 'Tokens are not taken here: leave out Authorization and give the password of the role.')
  const given = headers['neon-connection-string']
  if (typeof given !== 'string' || given === '')
    throw new Refusal(400, 'The header Neon-Connection-String is missing: it names the role and the database.')
  return parseConnectionString(given, domain)
}

/** A batch is one transaction. */
const framed = ({ statements, begin }: SqlRequest): readonly HttpStatement[] =>
  begin === undefined ? statements : [plain(begin), ...statements, plain('commit')]

const plain = (text: string): HttpStatement => ({ text, parameters: [], arrayMode: true, rawText: true })

function answerOf({ statements, begin }: SqlRequest, results: readonly Result[]): string {
  const own = begin === undefined ? results : results.slice(1, -1)
  const answers = own.map((result, index) => answerJson(result, statements[index]?.arrayMode ?? false))
  return begin === undefined ? (answers[0] ?? '') : `{"results":[${answers.join(',')}]}`
}

function answerJson({ fields, rows, tag }: Result, rowAsArray: boolean): string {
  const [command] = tag.split(' ')
  const rowCount = / (\d+)$/.exec(tag)?.[1] ?? 'null'
  const head = `"fields":${JSON.stringify(fields)},"rows":[${rows.join(',')}]`
  return `{${head},"command":${JSON.stringify(command)},"rowCount":${rowCount},"rowAsArray":${rowAsArray}}`
}

function asRefusal(error: unknown, { log }: SqlContext): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof PostgresError)
    return new Refusal(TROUBLE.test(error.code) ? 500 : 400, error.message, error.fields)
  log.error({ err: error }, 'a request over HTTP failed')
  return new Refusal(500, 'Something failed in the proxy that should not have. The log of the proxy says what.')
}

/** Sends a refusal in the common form. */
export const sendRefusal = (response: ServerResponse, refusal: Refusal): void =>
  send(response, refusal.status, refusalBody(refusal))

function send(response: ServerResponse, status: number, body: string): void {
  const timer = setTimeout(() => response.destroy(), MAX_SENDING_MS)
  response.once('close', () => clearTimeout(timer))
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}
