import { createHmac, pbkdf2Sync } from 'node:crypto'
import { once } from 'node:events'
import { connect as tcp, type Socket } from 'node:net'
import { connect as overTls, type ConnectionOptions } from 'node:tls'
import { ERROR_RESPONSE, NEGOTIATE_PROTOCOL_VERSION } from '../../src/proxy/wire/message_types.ts'
import { encodeMessage, errorFields, int32, MESSAGE_HEAD } from '../../src/proxy/wire/messages.ts'
import { parseVerifier } from '../../src/proxy/auth/verifier.ts'
import { scramClient } from '../../src/proxy/connect/scram_client.ts'
import { SCRAM, type ScramKeys } from '../../src/proxy/wire/scram.ts'
import { CANCEL_REQUEST, encodeStartup, PROTOCOL_3_0, SSL_REQUEST } from '../../src/proxy/wire/startup.ts'
import { PASSWORD } from './servers.ts'

/* A client that sends given messages one by one, for tests that no driver can run. */

/** How a raw client connects to Postgres: through a proxy, or directly to a server by its Unix socket. */
export interface Way {
  readonly to: { readonly port: number } | { readonly path: string }
  /** Verifier of the password: the client's proof uses its salt. */
  readonly verifier: string
  readonly parameters: Readonly<Record<string, string>>
  /** Version of the protocol. 3.0 if not given. */
  readonly version?: number
  readonly tls?: ConnectionOptions
  /** Begins with TLS, without SSLRequest. */
  readonly direct?: boolean
}

export interface RawClient {
  readonly socket: Socket
  /** The ParameterStatus messages of the login, in short form. */
  readonly welcome: readonly string[]
  /** The body of BackendKeyData. */
  readonly key: Buffer
  /** The body of NegotiateProtocolVersion, if that was sent. */
  readonly negotiated: Buffer | undefined
  send(...messages: readonly Buffer[]): void
  /** The messages up to the next ReadyForQuery, or the end of the connection, in short form. */
  answer(): Promise<string[]>
  /** The next `count` messages, in short form. */
  next(count: number): Promise<string[]>
  /** All messages until the connection ends. */
  end(): Promise<string[]>
  close(): void
}

/** Opens a connection and logs in. Errors: the server's error, in short form. */
export async function rawClient(way: Way): Promise<RawClient> {
  const { version = PROTOCOL_3_0 } = way
  const socket = await open(way)
  const client = reader(socket)
  socket.write(encodeStartup({ version, parameters: new Map(Object.entries(way.parameters)) }))
  const scram = scramClient()
  const first = Buffer.from(scram.first)
  const answer = await client.message()
  const negotiated = answer?.[0] === NEGOTIATE_PROTOCOL_VERSION ? answer.subarray(MESSAGE_HEAD) : undefined
  if (negotiated) await client.message()
  socket.write(password(Buffer.from(`${SCRAM}\0`), int32(first.length), first))
  const challenge = await client.message()
  if (challenge === undefined || challenge[0] === ERROR_RESPONSE) throw new Error(brief(challenge))
  socket.write(password(Buffer.from(scram.prove(challenge.toString('utf8', 9), keysOf(way.verifier)) ?? '')))
  let key: Buffer = Buffer.alloc(0)
  const welcome: string[] = []
  for (;;) {
    const message = await client.message()
    if (message === undefined || message[0] === ERROR_RESPONSE) throw new Error(brief(message))
    if (message[0] === 0x4b) key = Buffer.from(message.subarray(MESSAGE_HEAD))
    if (message[0] === 0x53) welcome.push(brief(message))
    if (message[0] === 0x5a) break
  }

  async function collect(isLast: (message: Buffer, count: number) => boolean): Promise<string[]> {
    const all: string[] = []
    for (;;) {
      const message = await client.message()
      if (message === undefined) return [...all, 'closed']
      all.push(brief(message))
      if (isLast(message, all.length)) return all
    }
  }

  return {
    socket,
    welcome,
    key,
    negotiated,
    send: (...messages) => void socket.write(Buffer.concat(messages)),
    answer: () => collect((message) => message[0] === 0x5a),
    next: (most) => collect((_message, count) => count === most),
    end: () => collect(() => false),
    close: () => void socket.end(encodeMessage(0x58)),
  }
}

/** Sends a cancel request with a client's key. Resolves when the proxy has closed the connection. */
export async function cancel(port: number, key: Buffer): Promise<void> {
  const socket = tcp(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.end(Buffer.concat([int32(8 + key.length), int32(CANCEL_REQUEST), key]))
  await once(socket.resume(), 'close')
}

async function open({ to, tls, direct }: Way): Promise<Socket> {
  const plain = 'path' in to ? tcp(`${to.path}/.s.PGSQL.5432`) : tcp(to.port, '127.0.0.1')
  plain.on('error', () => {})
  if ('path' in to) return plain
  if (!direct) {
    plain.write(Buffer.concat([int32(8), int32(SSL_REQUEST)]))
    await new Promise((resolve) => {
      plain.once('readable', resolve)
    })
    plain.read(1)
  }
  const socket = overTls({ socket: plain, rejectUnauthorized: false, ...tls })
  socket.on('error', () => {})
  return socket
}

const known = new Map<string, ScramKeys>()

/** The keys of the password with the salt of a verifier (RFC 5802). */
export function keysOf(verifier: string): ScramKeys {
  const { salt, iterations, serverKey } = parseVerifier(verifier) ?? {
    salt: '',
    iterations: 1,
    serverKey: Buffer.alloc(32),
  }
  const keys = known.get(verifier) ?? {
    clientKey: createHmac('sha256', pbkdf2Sync(PASSWORD, salt, iterations, 32, 'sha256'))
      .update('Client Key')
      .digest(),
    serverKey,
  }
  known.set(verifier, keys)
  return keys
}

/** Reads message by message. Returns undefined once the connection has ended. */
function reader(socket: Socket): { message(): Promise<Buffer | undefined> } {
  let chunks: Buffer[] = []
  let length = 0
  let needed = MESSAGE_HEAD
  let over = false
  let waiting: (() => void) | undefined

  const look = (): void => {
    if (length >= needed || over) waiting?.()
  }
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    length += chunk.length
    look()
  })
  for (const event of ['end', 'close'])
    socket.once(event, () => {
      over = true
      look()
    })

  /** Waits until `count` bytes have come. */
  async function have(count: number): Promise<Buffer | undefined> {
    needed = count
    if (length < count && !over)
      await new Promise<void>((resolve) => {
        waiting = resolve
      })
    waiting = undefined
    if (length < count) return undefined
    const bytes = chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks)
    chunks = [bytes]
    return bytes
  }

  return {
    async message() {
      const head = await have(MESSAGE_HEAD)
      const bytes = head && (await have(1 + head.readInt32BE(1)))
      if (!bytes) return undefined
      const end = 1 + bytes.readInt32BE(1)
      chunks = end < bytes.length ? [bytes.subarray(end)] : []
      length = bytes.length - end
      return bytes.subarray(0, end)
    },
  }
}

/** A server's message in short form: its letter and the fields that tests compare. */
function brief(message: Buffer | undefined): string {
  if (!message) return 'closed'
  const letter = String.fromCharCode(message[0] ?? 0)
  const body = message.subarray(MESSAGE_HEAD)
  const text = (): string => body.toString('latin1').replace(/\0$/, '').replaceAll('\0', '=')
  switch (letter) {
    case 'E':
      // A pooled client's statements have other names at the server, and its errors contain these.
      return `E ${errorFields(body).get('C')} ${errorFields(body)
        .get('M')
        ?.replace(/(?<=prepared statement )"[^"]*"/, '…')}`
    case 'N':
      return `N ${errorFields(body).get('M')}`
    case 'Z':
    case 'C':
    case 'S':
    case 'd':
      return `${letter} ${text()}`
    case 'A':
      return `A ${body.toString('latin1', 4).replaceAll('\0', ' ')}`
    case 'D':
      return `D ${valuesOf(body).join('|')}`
    case 'T':
      return `T ${body.readInt16BE(0)}`
    case 't':
      return `t ${body.toString('hex')}`
    case 'V':
      return `V ${body.toString('latin1', 4)}`
    default:
      return letter
  }
}

function valuesOf(body: Buffer): string[] {
  const values: string[] = []
  for (let at = 2; values.length < body.readInt16BE(0);) {
    const length = body.readInt32BE(at)
    at += 4
    values.push(length < 0 ? 'null' : short(body.toString('latin1', at, at + length)))
    at += Math.max(length, 0)
  }
  return values
}

const short = (text: string): string => (text.length > 100 ? `${text.slice(0, 20)}…${text.length}` : text)

const text = (value: string): Buffer => Buffer.from(`${value}\0`)
const int16 = (value: number): Buffer => Buffer.of(value >> 8, value & 255)
const password = (...parts: Buffer[]): Buffer => encodeMessage(0x70, ...parts)
const lengthed = (value: string | Buffer | null): Buffer =>
  value === null ? int32(-1) : Buffer.concat([int32(Buffer.byteLength(value)), Buffer.from(value)])
const of = (letter: string, ...parts: Buffer[]): Buffer => encodeMessage(letter.charCodeAt(0), ...parts)

/* Messages of a client (Postgres manual, "Message Formats"). */

export const query = (sql: string): Buffer => of('Q', text(sql))
export const parse = (name: string, sql: string, ...types: number[]): Buffer =>
  of('P', text(name), text(sql), int16(types.length), ...types.map(int32))
export const bind = (portal: string, statement: string, ...values: (string | null)[]): Buffer =>
  of('B', text(portal), text(statement), int16(0), int16(values.length), ...values.map(lengthed), int16(0))
export const describe = (kind: 'S' | 'P', name: string): Buffer => of('D', Buffer.from(kind), text(name))
export const execute = (portal = '', most = 0): Buffer => of('E', text(portal), int32(most))
export const close = (kind: 'S' | 'P', name: string): Buffer => of('C', Buffer.from(kind), text(name))
export const sync = (): Buffer => of('S')
export const flush = (): Buffer => of('H')
export const copyData = (data: string): Buffer => of('d', Buffer.from(data))
export const copyDone = (): Buffer => of('c')
export const copyFail = (why: string): Buffer => of('f', text(why))
/** Calls a function by its oid with values in text. */
export const call = (oid: number, ...values: string[]): Buffer =>
  of('F', int32(oid), int16(0), int16(values.length), ...values.map(lengthed), int16(0))
export const terminate = (): Buffer => of('X')
/** Parses, binds and executes the unnamed statement. */
export const run = (sql: string, ...values: string[]): Buffer =>
  Buffer.concat([parse('', sql), bind('', '', ...values), execute()])
