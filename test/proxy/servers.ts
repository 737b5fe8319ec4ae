import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { programsOf } from './versions.ts'

export const PASSWORD = 'correct horse'

/** The version in Neap's npm packages. */
const BUNDLED = 18

/** A real Postgres server that a test starts and stops. */
export interface Server {
  /** The directory of its Unix socket, port 5432. */
  readonly socketDir: string
  /** The server's log since its last start. */
  log(): string
  /** Starts it and resolves with its pid once it accepts connections. */
  start(...settings: string[]): Promise<number>
  stop(signal?: NodeJS.Signals): Promise<void>
}

export interface Servers {
  readonly dir: string
  /** A new server. All servers of a version begin as copies of one new data directory with superuser `postgres`. */
  server(name: string, version?: number): Promise<Server>
  close(): Promise<void>
}

/**
 * Makes a temporary directory for Postgres, with a data directory of each version in use; all users log in by password.
 */
export async function makeServers(): Promise<Servers> {
  const dir = await mkdtemp(join(tmpdir(), 'neap-proxy-'))
  const owner = process.getuid?.() === 0 ? await nobody() : undefined
  await chmod(dir, 0o755)
  const passwordFile = join(dir, 'password')
  await writeFile(passwordFile, PASSWORD)
  const templates = new Map<number, ReturnType<typeof makeTemplate>>()

  async function makeTemplate(version: number) {
    const bin = await programsOf(version, join(dir, 'pg'))
    const template = join(dir, `template.${version}`)
    await mkdir(template, { mode: 0o700 })
    if (owner) await chown(template, owner.uid, owner.gid)
    const options = [
      '-U',
      'postgres',
      '-A',
      'scram-sha-256',
      '-E',
      'UTF8',
      '--locale=C',
      '--no-sync',
      '--no-instructions',
    ]
    await promisify(execFile)(join(bin, 'initdb'), ['-D', template, `--pwfile=${passwordFile}`, ...options], {
      ...owner,
      cwd: '/',
    })
    return { bin, template }
  }

  function templateOf(version: number): ReturnType<typeof makeTemplate> {
    const made = templates.get(version) ?? makeTemplate(version)
    templates.set(version, made)
    return made
  }

  const running = new Set<Server>()

  return {
    dir,
    async server(name, version = BUNDLED) {
      const { bin, template } = await templateOf(version)
      const data = join(dir, name)
      const socketDir = join(dir, `${name}.run`)
      await cp(template, data, { recursive: true })
      await mkdir(socketDir)
      if (owner) {
        await promisify(execFile)('chown', ['-R', `${owner.uid}:${owner.gid}`, data, socketDir])
      }
      await chmod(data, 0o700)
      let child: ChildProcess | undefined
      let log = ''
      const settings = {
        listen_addresses: '',
        unix_socket_directories: socketDir,
        fsync: 'off',
        max_connections: '300',
        shared_buffers: '32MB',
      }
      const server: Server = {
        socketDir,
        log: () => log,
        async start(...more) {
          const all = [...Object.entries(settings).map(([key, value]) => `${key}=${value}`), ...more]
          const started = spawn(join(bin, 'postgres'), ['-D', data, ...all.flatMap((one) => ['-c', one])], {
            ...owner,
            cwd: '/',
            stdio: ['ignore', 'ignore', 'pipe'],
          })
          child = started
          running.add(server)
          log = ''
          await new Promise<void>((resolve, reject) => {
            started.stderr?.setEncoding('utf8').on('data', (text: string) => {
              log += text
              if (log.includes('ready to accept connections')) resolve()
            })
            started.once('exit', () => reject(new Error(`postgres ended: ${log}`)))
          })
          return started.pid ?? 0
        },
        async stop(signal = 'SIGINT') {
          running.delete(server)
          if (child?.exitCode !== null || child.signalCode !== null) return
          const exited = once(child, 'exit')
          child.kill(signal)
          await exited
        },
      }
      return server
    },
    async close() {
      await Promise.all([...running].map((server) => server.stop('SIGQUIT')))
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** The user of Postgres when the tests run as root: nobody, since initdb needs a user with a name. */
async function nobody(): Promise<{ uid: number; gid: number }> {
  const entry = (await readFile('/etc/passwd', 'utf8')).split('\n').find((line) => line.startsWith('nobody:'))
  const [, , uid, gid] = entry?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
