import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { installBinaries } from '../../src/host/binaries.ts'
import { type Catalog, openCatalog } from '../../src/catalog/catalog.ts'
import { migrate } from '../../src/catalog/migrate.ts'
import { processesOf, until } from '../processes.ts'

const run = promisify(execFile)
const TEMPLATE = 'migrated'

/** One Postgres per test file, with a migrated catalog that is copied for each test. */
export interface Catalogs {
  /** Calls `work` with a separate catalog and drops it afterwards; fails if a session is still connected to it. */
  with(work: (own: OwnCatalog) => Promise<void>): Promise<void>
  /** Stops the server; fails if a process, a socket or a timer is left behind. */
  close(): Promise<void>
}

export interface OwnCatalog {
  readonly url: string
  readonly catalog: Catalog
  /** Opens another pool on the same database, as another process would; closed at the end of the test. */
  readonly open: () => Catalog
}

/** Starts a catalog server in a temporary directory. */
export async function startCatalogs(): Promise<Catalogs> {
  const dir = await mkdtemp(join(tmpdir(), 'neap-catalogs-'))
  await chmod(dir, 0o755)
  const owner = process.getuid?.() === 0 ? await nobody() : undefined
  const data = join(dir, 'data')
  const bin = await installBinaries(join(dir, 'pg'), 18)
  await mkdir(data, { mode: 0o700 })
  if (owner) await chown(data, owner.uid, owner.gid)
  const as = { ...owner, cwd: '/' }
  const initdb = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
  await run(join(bin, 'initdb'), initdb, as)
  const settings = {
    listen_addresses: '',
    unix_socket_directories: data,
    fsync: 'off',
    max_connections: '300',
    shared_buffers: '32MB',
  }
  const flags = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  const log = join(data, 'log')
  const pgCtl = (...args: string[]) => run(join(bin, 'pg_ctl'), ['-D', data, '-w', ...args], as)
  await pgCtl('-l', log, '-o', flags.join(' '), 'start')
  const urlOf = (database: string) => `postgresql://postgres@/${database}?host=${encodeURIComponent(data)}`
  const admin = new pg.Client({ connectionString: urlOf('postgres') })
  await admin.connect()
  await admin.query(`create database ${TEMPLATE}`)
  await migrate(urlOf(TEMPLATE))
  let made = 0

  return {
    async with(work) {
      const database = `test_${++made}`
      await admin.query(`create database ${database} template ${TEMPLATE}`)
      const opened: Catalog[] = []
      const open = () => {
        const catalog = openCatalog(urlOf(database), 20, () => {})
        opened.push(catalog)
        return catalog
      }
      try {
        await work({ url: urlOf(database), catalog: open(), open })
      } finally {
        await Promise.all(opened.map((catalog) => catalog.close()))
      }
      // After a wait Postgres refuses this while a session is connected.
      await admin.query(`drop database ${database}`)
    },
    async close() {
      await admin.end()
      await pgCtl('-m', 'fast', 'stop')
      await rm(dir, { recursive: true, force: true })
      await expectNothingLeft(dir)
    },
  }
}

/**
 * Waits until no process belongs to a directory and this process has no active resources; fails if that does not
 * happen.
 */
export async function expectNothingLeft(dir: string): Promise<void> {
  // Resources of the test runner itself, or of the wait.
  const own = new Set(['PipeWrap', 'Timeout', 'FSReqCallback', 'FSReqPromise', 'TTYWrap', 'Immediate'])
  const left = () => [...processesOf(dir), ...process.getActiveResourcesInfo().filter((name) => !own.has(name))]
  await until(`nothing is left of ${dir}`, () => left().length === 0).catch(() => assert.deepEqual(left(), []))
}

/** As root, Postgres runs as nobody, because initdb needs a user with a name. */
async function nobody(): Promise<{ uid: number; gid: number }> {
  const entry = (await readFile('/etc/passwd', 'utf8')).split('\n').find((line) => line.startsWith('nobody:'))
  const [, , uid, gid] = entry?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
