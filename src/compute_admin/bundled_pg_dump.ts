import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { ComputeAddress } from '../backends/backend.ts'

/** The program keeps all answers in memory, and those of a hostile compute do not end. */
const MAX_RECEIVED_BYTES = 64 * 2 ** 20

const PROGRAM = fileURLToPath(import.meta.resolve('./pg_dump_program.ts'))

export interface DumpRequest {
  /** A connection string of keywords and values. Its host is ignored: the connection is open already. */
  readonly connection: string
  readonly options: readonly string[]
}

export type DumpReply = { readonly sql: string } | { readonly complaint: string }

/**
 * Runs the pg_dump that npm brings as WebAssembly, of Postgres 18, which reads older servers too. It has a process of its own and a connection that this
 * one opens.
 * @param signal kills it
 * @returns what it printed, or what it complained of; `flooded` where the compute sent too much; undefined where it was killed
 */
export async function runBundledPgDump(
  { host, port }: Pick<ComputeAddress, 'host' | 'port'>,
  request: DumpRequest,
  signal: AbortSignal,
): Promise<DumpReply | 'flooded' | undefined> {
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
  try {
    await once(socket, 'connect', { signal })
    return await converse(socket, request, signal)
  } catch (error) {
    if (signal.aborted) return undefined
    return { complaint: String(error) }
  } finally {
    socket.destroy()
  }
}

async function converse(socket: Socket, request: DumpRequest, signal: AbortSignal) {
  const child = spawn(process.execPath, [PROGRAM], {
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    signal,
    killSignal: 'SIGKILL',
    // No variable of this process, which may be secret.
    env: { LC_ALL: 'C' },
  }) as ChildProcessByStdio<Writable, Readable, Readable>
  // However one side ends, the other's end follows from it.
  for (const stream of [socket, child.stdin, child.stdout]) stream.on('error', () => socket.destroy())
  socket.pipe(child.stdin)
  child.stdout.pipe(socket)
  let received = 0
  socket.on('data', (bytes: Buffer) => {
    received += bytes.length
    if (received > MAX_RECEIVED_BYTES) child.kill('SIGKILL')
  })
  socket.once('close', () => child.stdin.end())
  let reply: DumpReply | undefined
  let failure = ''
  child.once('message', (message) => (reply = message as DumpReply))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (failure = (failure + text).slice(-2_000)))
  child.send(request, (error) => error && child.kill('SIGKILL'))
  await new Promise<void>((resolve, reject) => {
    child.once('close', () => resolve())
    child.once('error', (error) => (error.name === 'AbortError' ? undefined : reject(error)))
  })
  if (signal.aborted) return undefined
  if (received > MAX_RECEIVED_BYTES) return 'flooded'
  return reply ?? { complaint: failure || 'it ended without a word' }
}
