/*
 * The socket for administrators of this Neap has one path, and several api processes may share its directory. The last
 * one to start owns it; when that process ends or freezes, another takes it over. A takeover renames a new socket onto
 * the path, without a gap.
 */
import { once } from 'node:events'
import { chmod, rename, rm, stat } from 'node:fs/promises'
import { createServer, get, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { type Loop, startPeriodic } from '../loops/periodic.ts'

const LOOK_MS = 1_000
const ANSWER_MS = 3_000

interface Held {
  readonly server: Server
  readonly file: string
}

export interface AdminSocketOptions {
  readonly path: string
  readonly serve: RequestListener
  readonly onConnection: (connection: Socket) => void
  readonly onError: (error: unknown) => void
}

/** Takes the socket, and again whenever no process answers on it. Errors: the directory cannot be written to. */
export async function holdAdminSocket(options: AdminSocketOptions): Promise<Loop> {
  const { path } = options
  let held = await take(options)

  async function look(): Promise<void> {
    const file = await fileAt(path)
    if (file === held.file || (file !== undefined && (await answers(path)))) return
    const { server } = held
    held = await take(options)
    server.close()
  }

  const loop = startPeriodic(LOOK_MS, look, options.onError)
  return {
    async stop() {
      await loop.stop()
      if ((await fileAt(path)) === held.file) await rm(path, { force: true })
      held.server.close()
      held.server.closeAllConnections()
    },
  }
}

async function take({ path, serve, onConnection }: AdminSocketOptions): Promise<Held> {
  // Not longer than the path itself, which may use all bytes that a socket's path can have.
  const own = join(dirname(path), `.${process.pid.toString(36)}`)
  await rm(own, { force: true })
  const server = createServer(serve)
  server.on('connection', onConnection)
  const mask = process.umask(0o177)
  try {
    server.listen(own)
  } finally {
    process.umask(mask)
  }
  await once(server, 'listening')
  await chmod(own, 0o600)
  const file = await fileAt(own)
  await rename(own, path)
  return { server, file: file ?? '' }
}

/** Identifies the file at a path: an inode number alone may be reused. */
async function fileAt(path: string): Promise<string | undefined> {
  try {
    const { ino, birthtimeMs } = await stat(path)
    return `${ino} ${birthtimeMs}`
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Whether a process answers there: a frozen one accepts connections and sends no answer. */
function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ socketPath, path: '/healthz', timeout: ANSWER_MS, agent: false }, (response) => {
      response.resume()
      resolve(true)
    })
    request.once('timeout', () => request.destroy())
    request.once('error', () => resolve(false))
  })
}
