import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { ComputeAddress } from '../compute/compute.ts'
import { openServerSocket } from '../postgres/server_socket.ts'

/** The program buffers all that it receives, and a hostile compute sends without end. */
const MAX_RECEIVED_BYTES = 64 * 2 ** 20

const PROGRAM = fileURLToPath(import.meta.resolve('./pg_dump_program.ts'))

export interface DumpRequest {
  /** A keyword/value connection string. Its host is ignored: the connection is already open. */
  readonly connection: string
  readonly options: readonly string[]
}

export type DumpReply = { readonly sql: string } | { readonly complaint: string }

/**
 * Runs the pg_dump of Postgres 18 that npm provides as WebAssembly; it also reads older servers. It has its own
 * process, and a connection that this process opens.
 * @param signal kills it
 * @returns its output, or its error text; `flooded` if the compute sent too much; undefined if it was killed
 */
export async function runBundledPgDump(
  address: Pick<ComputeAddress, 'host' | 'port'>,
  request: DumpRequest,
  signal: AbortSignal,
): Promise<DumpReply | 'flooded' | undefined> {
  const socket = openServerSocket(address)
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
    // Without the variables of this process, which may be secret.
    env: { LC_ALL: 'C' },
  }) as ChildProcessByStdio<Writable, Readable, Readable>
  // Without descriptors the child has no streams: its error follows.
  if (child.pid === undefined) await once(child, 'spawn')
  // An error of any stream closes the socket, and its close ends the input of the child.
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
