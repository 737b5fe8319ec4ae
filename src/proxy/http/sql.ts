import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ConnectionContext } from '../context.ts'
import { ClientGone } from '../errors.ts'
import { type Login, parseConnectionString } from './connection_string.ts'
import { PostgresError, Refusal, refusalBody } from './refusal.ts'
import { type BodyReader, parseRequest, type SqlRequest } from './request.ts'
import type { Result, Statement } from './statement.ts'
import type { Sessions } from './sessions.ts'

/** Who does not take an answer in that time is cut off. */
const MOST_SENDING_MS = 60_000

/** By SQLSTATE: the compute, or the way to it, is in trouble, not the request. */
const TROUBLE = /^(08001|53|57P|58|XX)/

export interface SqlContext {
  readonly connection: ConnectionContext
  readonly sessions: Sessions
  readonly bodies: BodyReader
}

/** Answers a request to `/sql`. Never rejects. */
export async function answerSql(
  context: SqlContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController()
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      gone.abort()
      resolve()
    })
  })
  try {
    const who = { ...loginOf(context.connection, request), address: request.socket.remoteAddress }
    const body = await context.bodies.read(request, closed)
    const answered = await context.sessions.use(who, gone.signal, async (session) => {
      // Only now: to parse what is large takes a while in which nobody else is served.
      const asked = parseRequest(request.headers, body)
      return answerOf(asked, await session.run(framed(asked)))
    })
    send(response, 200, answered)
  } catch (error) {
    if (error instanceof ClientGone) response.destroy()
    else sendRefusal(response, asRefusal(error, context.connection))
  }
}

/** Errors: Refusal. */
function loginOf({ domain }: ConnectionContext, { headers }: IncomingMessage): Login {
  if (headers.authorization?.toLowerCase().startsWith('bearer '))
    throw new Refusal(400, 'Tokens are not taken here: leave out Authorization and give the password of the role.')
  const given = headers['neon-connection-string']
  if (typeof given !== 'string' || given === '')
    throw new Refusal(400, 'The header Neon-Connection-String is missing: it says who asks for which database.')
  return parseConnectionString(given, domain)
}

/** A batch is one transaction. */
const framed = ({ statements, begin }: SqlRequest): readonly Statement[] =>
  begin === undefined ? statements : [plain(begin), ...statements, plain('commit')]

const plain = (text: string): Statement => ({ text, parameters: [], arrayMode: true, rawText: true })

function answerOf({ statements, begin }: SqlRequest, results: readonly Result[]): string {
  const own = begin === undefined ? results : results.slice(1, -1)
  const answers = own.map((result, index) => answerJson(result, statements[index]?.arrayMode ?? false))
  return begin === undefined ? (answers[0] ?? '') : `{"results":[${answers.join(',')}]}`
}

function answerJson({ fields, rows, tag }: Result, rowAsArray: boolean): string {
  const [command] = tag.split(' ')
  const rowCount = / (\d+)$/.exec(tag)?.[1] ?? 'null'
  return `{"fields":${JSON.stringify(fields)},"rows":[${rows.join(',')}],"command":${JSON.stringify(command)},"rowCount":${rowCount},"rowAsArray":${rowAsArray}}`
}

function asRefusal(error: unknown, { log }: ConnectionContext): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof PostgresError)
    return new Refusal(TROUBLE.test(error.code) ? 500 : 400, error.message, error.fields)
  log.error({ err: error }, 'a request over HTTP failed')
  return new Refusal(500, 'Something failed in the proxy that should not have. The log of the proxy says what.')
}

/** Says no, in the form of every refusal here. */
export const sendRefusal = (response: ServerResponse, refusal: Refusal): void =>
  send(response, refusal.status, refusalBody(refusal))

function send(response: ServerResponse, status: number, body: string): void {
  const timer = setTimeout(() => response.destroy(), MOST_SENDING_MS)
  response.once('close', () => clearTimeout(timer))
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}
