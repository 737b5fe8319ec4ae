import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fillDataDirectory } from '../../storage/clone.ts'
import { CATALOG, type StoreSecrets } from '../../secrets/stores.ts'
import type { ChosenPrograms } from '../../host/binaries.ts'
import { layoutOf, logDirOf } from '../../host/layout.ts'
import { catalogOwner } from '../../host/uids.ts'
import { prepareVersion } from '../../storage/prepare.ts'
import { ensureOwnPasswords, replaceUnknownPassword } from './store_password.ts'
import { recoverStore } from './recover_store.ts'
import { findServer, startServer } from './server.ts'
import { stopServer } from './stop_server.ts'
import { probeWalls } from './walls.ts'

/** The Postgres server of an embedded catalog: created, started and stopped as a compute is, but in no catalog. */
export interface CatalogServer {
  /**
   * Creates it if absent, starts or finds it, and returns when it accepts connections, after any length of recovery.
   */
  start(): Promise<{ readonly pid: number; readonly adopted: boolean }>
  /** Stops it cleanly. Returns false when it still runs after `withinMs`. */
  stop(withinMs?: number): Promise<boolean>
  /** Its process, if it runs. */
  find(): Promise<{ readonly pid: number; readonly startedAt: Date } | undefined>
}

const PG_VERSION = 18

const HBA = 'local all neap_admin scram-sha-256\nlocal neap neap_proxy scram-sha-256\n'

const MAX_CONNECTIONS = 200
const MAX_PROCESSES = MAX_CONNECTIONS + 100

const CONFIG = Object.entries({
  max_connections: String(MAX_CONNECTIONS),
  shared_buffers: '64MB',
  max_wal_size: '512MB',
  min_wal_size: '32MB',
  // What a repository that is away does not take, at most.
  max_slot_wal_keep_size: '1GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  log_line_prefix: '%m [%p] %q%u@%d ',
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic',
  log_parameter_max_length_on_error: '0',
  log_checkpoints: 'off',
})
  .map(([name, value]) => `${name} = '${value}'\n`)
  .join('')

/**
 * The embedded catalog: database `neap`, superuser `neap_admin` with the password of the store `catalog`, role
 * `neap_proxy` for proxies, reachable only through the socket in `socketDir`.
 */
export function localCatalogServer(options: {
  dataDir: string
  runtimeDir: string
  socketDir: string
  secrets: StoreSecrets
  programs?: ChosenPrograms | undefined
  uids?: string | undefined
}): CatalogServer {
  const layout = layoutOf(options)
  const home = join(layout.dataDir, 'catalog')
  const logFile = (name: string) => join(logDirOf(layout, 'catalog'), name)
  const owner = catalogOwner({ dataDir: layout.dataDir, uids: options.uids })

  async function start() {
    const running = await findServer(home)
    const { bin, template } = await prepareVersion(layout, PG_VERSION, options.secrets, options.programs)
    await writeInPlace(home)
    while (
      (await fillDataDirectory(
        { home, from: template, owner },
        { removed: '', logFile: logFile('copy.log'), cacheDir: layout.cache, cloneKind: async () => 'copy' },
      )) === 'pending'
    );
    const plan = {
      home,
      owner,
      bin,
      socketDir: options.socketDir,
      walls: await probeWalls(layout.root),
      root: layout.root,
      egress: '',
      processes: MAX_PROCESSES,
      groups: () => '',
      hba: HBA,
      config: CONFIG,
      logFile: logFile('postgres.log'),
    }
    const secrets = { ...options.secrets, isGone: options.secrets.isLost }
    while ((await recoverStore(plan, CATALOG, options.secrets)) === 'pending');
    while ((await replaceUnknownPassword(plan, CATALOG, secrets)) === 'pending');
    for (;;) {
      const server = await startServer(plan)
      if (server === 'pending') continue
      await ensureOwnPasswords(plan, CATALOG, options.secrets)
      return { pid: server.pid, adopted: server.pid === running?.pid }
    }
  }

  async function stop(withinMs = Infinity) {
    const deadline = Date.now() + withinMs
    const { socketDir } = options
    while ((await stopServer(home, { socketDir })) === 'pending') if (Date.now() > deadline) return false
    return true
  }

  return { start, stop, find: () => findServer(home) }
}

/** The type of Btrfs in statfs(2). */
const BTRFS = 0x9123683e

/**
 * Lets new files of the catalog be written in place, for which a full disk has room: Btrfs writes changed blocks
 * elsewhere (btrfs(5), "nodatacow"). A catalog that is there already has its next segments of WAL so.
 */
async function writeInPlace(home: string): Promise<void> {
  mkdirSync(home, { recursive: true, mode: 0o710 })
  if (statfsSync(home).type !== BTRFS) return
  const directories = [home, join(home, 'pgdata/pg_wal')].filter((path) => existsSync(path))
  // Where the program is not installed the reserve alone is left.
  await promisify(execFile)('chattr', ['+C', ...directories]).catch(() => undefined)
}
