import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../free_port.ts'

const run = promisify(execFile)
const BIN = '/usr/lib/postgresql/15/bin'

/** For the `skip` of a test: the distribution's Postgres is not installed. False when it is. */
export const withoutServer = existsSync(BIN) ? false : `${BIN} not installed`

/** A Postgres of the operator as catalog: the distribution's, over TCP. */
export interface CatalogServer {
  readonly url: string
  /** The pid of its postmaster. */
  readonly pid: () => Promise<number>
  readonly start: () => Promise<void>
  /** Stops it immediately, as if the machine failed. */
  readonly stop: () => Promise<void>
  readonly close: () => Promise<void>
}

export async function startCatalogServer(): Promise<CatalogServer> {
  const dir = await mkdtemp(join(tmpdir(), 'operators-'))
  await chmod(dir, 0o755)
  const data = join(dir, 'data')
  const owner = process.getuid?.() === 0 ? await nobody() : undefined
  const as = { ...owner, cwd: '/' }
  await mkdir(data, { mode: 0o700 })
  if (owner) await chown(data, owner.uid, owner.gid)
  await run(join(BIN, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'], as)
  const port = await freePort()
  const settings = `-c listen_addresses=127.0.0.1 -c port=${port} -c unix_socket_directories= -c fsync=off`
  const pgCtl = (...args: string[]) => run(join(BIN, 'pg_ctl'), ['-D', data, '-w', ...args], as)
  const start = async () => void (await pgCtl('-l', join(data, 'log'), '-o', settings, 'start'))
  const stop = async () => void (await pgCtl('-m', 'immediate', 'stop'))
  await start()
  return {
    url: `postgresql://postgres@127.0.0.1:${port}/postgres`,
    pid: async () => Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0]),
    start,
    stop,
    async close() {
      await stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function nobody(): Promise<{ uid: number; gid: number }> {
  const entry = (await readFile('/etc/passwd', 'utf8')).split('\n').find((line) => line.startsWith('nobody:'))
  const [, , uid, gid] = entry?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
