import { type Duplex, duplexPair } from 'node:stream'
import type { Client } from '../accept/client.ts'
import { PASSWORD_MESSAGE } from '../wire/message_types.ts'
import { encodeMessage, int32 } from '../wire/messages.ts'
import { CANCEL_REQUEST, encodeStartup, PROTOCOL_3_0 } from '../wire/startup.ts'
import type { HttpLogin } from './connection_string.ts'
import { createSqlSession, type SqlSession } from './sql_session.ts'
import { text } from './statement.ts'

/** Serves a client from its startup packet on. Never rejects. */
export type Serve = (client: Client) => Promise<void>

/** A client of SQL over HTTP, with its login. */
export interface HttpClient extends HttpLogin {
  readonly address: string | undefined
}

/**
 * Logs in and waits for the compute. Returns the session and its endpoint.
 * @param signal gives up
 * Errors: PostgresError (from the proxy or the compute); Refusal; ClientGone.
 */
export async function openSession(
  serve: Serve,
  { address, serverName, parameters, password }: HttpClient,
  signal: AbortSignal,
): Promise<{ readonly session: SqlSession; readonly endpointId: string }> {
  let endpointId = ''
  const stream = streamTo(serve, address, serverName, (id) => (endpointId = id))
  const session = createSqlSession(stream, (key) => cancel(serve, address, key))
  const latin1 = new Map([...parameters].map(([name, value]) => [name, Buffer.from(value).toString('latin1')]))
  const startup = encodeStartup({ version: PROTOCOL_3_0, parameters: latin1 })
  const gone = (): void => session.abandon()
  signal.addEventListener('abort', gone)
  try {
    if (signal.aborted) gone()
    stream.write(Buffer.concat([startup, encodeMessage(PASSWORD_MESSAGE, text(password))]))
    await session.answered
  } finally {
    signal.removeEventListener('abort', gone)
  }
  return { session, endpointId }
}

/** Connects to the proxy from within this process. */
function streamTo(
  serve: Serve,
  address: string | undefined,
  serverName: string | undefined,
  onLoggedIn: (endpointId: string) => void = () => {},
): Duplex {
  const [near, far] = duplexPair()
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    one.on('error', () => {})
    one.once('close', () => other.destroy())
  }
  void serve({ stream: far, address, serverName, authentication: 'password', binding: undefined, onLoggedIn })
  return near
}

/** Sends a CancelRequest and waits until the proxy has handled it. */
async function cancel(serve: Serve, address: string | undefined, key: Buffer): Promise<void> {
  const stream = streamTo(serve, address, undefined)
  stream.write(Buffer.concat([int32(8 + key.length), int32(CANCEL_REQUEST), key]))
  await new Promise((resolve) => {
    stream.once('close', resolve).once('end', () => stream.destroy())
    stream.resume()
  })
}
