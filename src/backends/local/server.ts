/**
 * Postgres servers as processes: a home directory with `pgdata` and a kernel lock that a server holds for its life. The lock alone says
 * whether one runs; `postmaster.pid` says which, where and how far it is:
 *
 *     (no lock) --start--> starting --> ready --SIGINT--> stopping --> (no lock)
 */
import { closeSync, existsSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { ConfigurationError, type Fence, type Progress } from '../backend.ts'
import { fenceArgs, isEffectCode, outcomeOf, runEffect, runEffectHere } from './effect.ts'
import { complaintIn, dropLog, openLog } from './logs.ts'
import { type PostmasterFile, readPostmasterFile } from './postmaster_file.ts'
import { hasNote, notedServer } from './server_note.ts'
import { forkEffect } from './spawner.ts'
import { mountsOf, type Walls } from './walls.ts'

/** A server listens on a Unix socket in a directory of its own and nowhere else: its port is a part of that socket's name. */
export const SERVER_PORT = 5432

/** A server to be started. `config` becomes `neap.conf`; `args` follow it on the command line, where nothing outranks them. */
export interface ServerPlan {
  /** Holds `pgdata`; locks and configuration are kept beside it. */
  readonly home: string
  /** The directory of its programs. */
  readonly bin: string
  readonly socketDir: string
  readonly walls: Walls
  /** An empty directory on which its root may be mounted. */
  readonly root: string
  /** The filter within which it has a way out, as nft takes it; empty: it has none. */
  readonly egress: string
  /** How many processes it may have. */
  readonly processes: number
  readonly hba: string
  readonly config: string
  readonly logFile: string
  readonly fence?: Fence | undefined
}

export interface RunningServer {
  readonly pid: number
  readonly startedAt: Date
  readonly ready: boolean
}

/** Postgres ended before it was ready; the message carries what its log says. */
export class ServerStartError extends Error {
  override readonly name = 'ServerStartError'
}

const CAP_MS = 4500

/**
 * Starts a server, or finds it running, and returns when it accepts connections; `pending` when that takes longer than 4.5 seconds.
 * @throws ServerStartError with the reason from its log
 * @throws FencedError when a newer attempt acted on this home
 */
export async function startServer(plan: ServerPlan, capMs = CAP_MS): Promise<RunningServer | 'pending'> {
  const deadline = performance.now() + capMs
  const pgdata = join(plan.home, 'pgdata')
  if (!existsSync(pgdata)) throw new Error(`There is no database in ${plan.home}.`)
  while (performance.now() < deadline) {
    const outcome = await startOnce(plan, pgdata, deadline)
    // One that was just ending is gone now: the next turn starts it anew.
    if (outcome !== 'gone') return outcome
  }
  return 'pending'
}

async function startOnce(
  plan: ServerPlan,
  pgdata: string,
  deadline: number,
): Promise<RunningServer | 'pending' | 'gone'> {
  const log = openLog(plan.logFile)
  const progress = watchProgress(plan.home, deadline)
  try {
    const effect = forkEffect(startArgs(plan, pgdata), plan.logFile)
    const first = await Promise.race([progress.ready(), effect.ended])
    if (first && 'code' in first) return await endedEarly(plan, first.code, log.size, progress, deadline)
    // Without a word it goes on starting: the next call finds it.
    effect.tell(first ? `${first.pid}\n` : '')
    if (first === undefined) return 'pending'
    const { code } = await effect.ended
    return code === 0 ? first : await endedEarly(plan, code, log.size, progress, deadline)
  } finally {
    progress.close()
    closeSync(log.file)
  }
}

/** What an exit code says that came before a server was ready. Errors: what kept it from starting. */
async function endedEarly(
  plan: ServerPlan,
  code: number | null,
  logSize: number,
  progress: ReturnType<typeof watchProgress>,
  deadline: number,
): Promise<RunningServer | 'pending' | 'gone'> {
  const said = complaintIn(plan.logFile, logSize)
  if (!isEffectCode(code)) {
    const complaint = said || `it ended with code ${code}; its log is ${plan.logFile}`
    const [refused = '', rest] = complaint.split(/; FATAL: +configuration file .* contains errors/)
    if (rest !== undefined) throw new ConfigurationError(`Postgres refuses its settings: ${refused}`)
    throw new ServerStartError(`Postgres did not start: ${complaint}`)
  }
  const outcome = outcomeOf(code, said)
  if (outcome === 'gone') {
    if (!existsSync(plan.home)) dropLog(plan.logFile)
    throw new Error(`There is no database in ${plan.home}.`)
  }
  if (outcome === 'busy') return 'pending'
  return joinRunning(plan, progress, deadline)
}

/** A server that cannot be asked for anything any more, since its postmaster.pid was spoilt or it was started without walls, is ended. */
async function endStray({ home, fence }: ServerPlan, over: AbortSignal): Promise<void> {
  if ((await reporting(home)) !== undefined || over.aborted) return
  await interruptServer(home, fence)
}

/** Waits for a server that another call started: until it is ready and sealed, or gone and to be started anew. */
async function joinRunning(plan: ServerPlan, progress: ReturnType<typeof watchProgress>, deadline: number) {
  const { home } = plan
  const over = new AbortController()
  endStray(plan, over.signal).catch(() => undefined)
  const seconds = Math.max(1, Math.ceil((deadline - performance.now()) / 1000))
  const gone = runEffectHere(['wait', home, String(seconds)], over).then(
    (outcome) => (outcome === 'held' ? undefined : ('gone' as const)),
    () => undefined,
  )
  const found = await Promise.race([progress.ready(), gone])
  over.abort()
  if (found === undefined || found === 'gone') return found ?? 'pending'
  const { fence, walls, socketDir } = plan
  const outcome = await runEffect(['seal', home, ...fenceArgs(fence), ownerOf(home)[0], walls.argument, socketDir])
  return outcome === 'done' ? found : outcome === 'gone' ? 'gone' : 'pending'
}

/** The uid and gid of a data directory, as effects take them: the owner as it was made is the one that Postgres accepts. */
function ownerOf(home: string): [uid: string, gid: string] {
  if (process.getuid?.() !== 0) return ['-', '-']
  const { uid, gid } = statSync(join(home, 'pgdata'))
  return [String(uid), String(gid)]
}

function startArgs(plan: ServerPlan, pgdata: string): string[] {
  const { home, socketDir, bin } = plan
  const conf = join(home, 'conf')
  const settings = {
    config_file: join(conf, 'neap.conf'),
    hba_file: join(conf, 'pg_hba.conf'),
    listen_addresses: '',
    port: String(SERVER_PORT),
    unix_socket_directories: `"${socketDir}"`,
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    // The end of a server is noticed at once. One that restarts itself without room for its recovery stands still for ever.
    restart_after_crash: 'off',
    // One call before recovery instead of one for each file.
    ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
    // A killed server leaves its segments behind; where no uid tells whose they were, they go with the data directory.
    ...(process.getuid?.() === 0 ? {} : { dynamic_shared_memory_type: 'mmap' }),
  }
  const postgres = [join(bin, 'postgres'), '-D', pgdata]
  for (const [name, value] of Object.entries(settings)) postgres.push('-c', `${name}=${value}`)
  const walls = [
    plan.walls.argument,
    plan.root,
    mountsOf({ bin, conf, pgdata, sockets: socketDir }, plan.egress !== ''),
  ]
  const given = [String(plan.processes), socketDir, plan.egress, plan.config, plan.hba]
  return ['start', home, ...fenceArgs(plan.fence), ...ownerOf(home), ...walls, ...given, ...postgres]
}

/** Turns the changes of postmaster.pid into promises; all end with `undefined` at the deadline. */
function watchProgress(home: string, deadline: number) {
  const pgdata = join(home, 'pgdata')
  const waiting = new Set<() => void>()
  let late = false
  const look = () => waiting.forEach((check) => check())
  const watcher = watch(pgdata, (_event, name) => {
    if (name === 'postmaster.pid') look()
  })
  const timer = setTimeout(() => {
    late = true
    look()
  }, deadline - performance.now())
  return {
    /** The server that runs here, when it is ready. */
    ready: (): Promise<RunningServer | undefined> =>
      new Promise((resolve) => {
        const check = () => {
          const found = runningIn(home)
          if (!found?.ready && !late) return
          waiting.delete(check)
          resolve(found?.ready ? found : undefined)
        }
        waiting.add(check)
        check()
      }),
    close: () => {
      clearTimeout(timer)
      watcher.close()
      waiting.clear()
    },
  }
}

function isReady(file: PostmasterFile): boolean {
  return file.status === 'ready' || file.status === 'standby'
}

/** What the server of a home reports of itself; undefined where no server runs or it has not reported yet. */
function runningIn(home: string): RunningServer | undefined {
  const pid = notedServer(home)
  const file = pid === undefined ? undefined : readPostmasterFile(join(home, 'pgdata'))
  return pid === undefined || !file ? undefined : { pid, startedAt: file.startedAt, ready: isReady(file) }
}

/** The server that runs in a home, if one does. One that has just begun is waited for, up to a second. */
export async function findServer(home: string): Promise<RunningServer | undefined> {
  // Its note names a process for good on Linux. To ask for the kernel's lock takes a process.
  const noted = process.platform === 'linux' ? runningIn(home) : undefined
  if (noted) return noted
  if ((await runEffect(['wait', home, '0'])) !== 'held' || !existsSync(join(home, 'pgdata'))) return undefined
  return reporting(home)
}

/** The server of a home as soon as it says something of itself, within a second. */
async function reporting(home: string): Promise<RunningServer | undefined> {
  return runningIn(home) ?? (await firstChange(join(home, 'pgdata'), () => runningIn(home), 1000))
}

/** Whether a server runs in a home whose start left no note: an earlier Neap's, without walls. */
export async function hasEarlierServer(home: string): Promise<boolean> {
  return !hasNote(home) && (await runEffect(['wait', home, '0'])) === 'held'
}

async function firstChange<T>(directory: string, look: () => T | undefined, capMs: number): Promise<T | undefined> {
  return await new Promise((resolve) => {
    const end = (found: T | undefined) => {
      clearTimeout(timer)
      watcher.close()
      resolve(found)
    }
    const watcher = watch(directory, () => {
      const found = look()
      if (found) end(found)
    })
    const timer = setTimeout(() => end(look()), capMs)
  })
}

/**
 * Stops a server cleanly (fast shutdown: sessions end with 57P01, a checkpoint is written); `pending` when that takes over four seconds.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function stopServer(home: string, fence?: Fence, seconds = 4): Promise<Progress> {
  const deadline = performance.now() + seconds * 1000
  while (performance.now() < deadline) {
    const outcome = await interruptServer(home, fence)
    if (outcome === 'done' || outcome === 'gone') return 'done'
    // A server that is only just beginning takes no signal yet.
    const patience = existsSync(join(home, 'pgdata/postmaster.pid')) ? (deadline - performance.now()) / 1000 : 1
    if ((await waitStopped(home, Math.ceil(patience))) === 'done') return 'done'
  }
  return 'pending'
}

/**
 * Writes another configuration for what runs in a home; it is read at the next reload or start.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function configureServer(home: string, config: string, fence: Fence): Promise<void> {
  const outcome = await runEffect(['configure', home, ...fenceArgs(fence), config])
  if (outcome === 'busy') throw new Error(`Another effect on ${home} takes long.`)
}

/** Asks for a fast shutdown, under the home's effect lock and only the server that is really this home's. */
const interruptServer = (home: string, fence?: Fence) => runEffect(['signal', home, ...fenceArgs(fence), 'INT'])

/** Waits for the kernel to say that nothing runs in a home. */
export async function waitStopped(home: string, seconds: number): Promise<Progress> {
  return (await runEffect(['wait', home, String(seconds)])) === 'held' ? 'pending' : 'done'
}
