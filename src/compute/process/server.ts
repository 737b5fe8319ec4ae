/**
 * Postgres servers as processes: a home directory with `pgdata` and a kernel lock that a server holds for its life.
 * Only the lock decides whether a server runs. The note `server` names its process; `postmaster.pid` gives its start
 * time and status:
 *
 *     (no lock) --start--> starting --> ready --stop_server.ts--> stopping --> (no lock)
 */
import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { awaitCondition } from '../../await_condition.ts'
import { ConfigurationError, ServerStartError } from '../../host/failures.ts'
import type { Fence } from '../../host/fence.ts'
import { type Owner, SERVER_PORT } from '../../host/layout.ts'
import { fenceText, isEffectCode, outcomeOf, runEffect, runEffectHere } from '../../host/effect.ts'
import { complaintIn, dropLog, openLog } from '../../host/logs.ts'
import { type PostmasterFile, readPostmasterFile } from '../../postgres/postmaster_file.ts'
import { hasNote, notedServer } from './server_note.ts'
import { forkEffect } from '../../host/spawner.ts'
import { urgeToStop } from './stop_server.ts'
import { mountsOf, type Walls } from './walls.ts'

/** A server to be started. `config` becomes `neap.conf`; settings on the command line (`startArgs`) override it. */
export interface ServerPlan {
  /** Holds `pgdata`; locks and configuration are kept beside it. */
  readonly home: string
  /** Runs it. Its files become this user's if they are another's. */
  readonly owner: Owner | undefined
  /** The directory of its programs. */
  readonly bin: string
  readonly socketDir: string
  readonly walls: Walls
  /** An empty directory on which its root may be mounted. */
  readonly root: string
  /** The filter of its egress, as nft takes it; empty: no egress. */
  readonly egress: string
  /** The maximum number of its processes. */
  readonly processes: number
  /** The control groups of a run with this instance id, as effect.pl takes them; empty: none. */
  readonly groups: (instance: string) => string
  readonly hba: string
  readonly config: string
  /** Settings that no file of the data directory overrides: code in a compute may have written one. */
  readonly overrides?: Readonly<Record<string, string>>
  readonly logFile: string
  readonly fence?: Fence | undefined
}

export interface StartedServer extends RunningServer {
  /** Whether this call started it, rather than found it. */
  readonly isNew: boolean
}

export interface RunningServer {
  readonly pid: number
  /** The id of this run: another start has another. */
  readonly instance: string
  readonly startedAt: Date
  readonly ready: boolean
}

/** How long one call waits for a start: the step that called it is repeated. */
const START_MS = 2_500
const SETTLE_MS = 4_000
const REPORT_MS = 1000

/**
 * Starts a server, or finds it running, and returns when it accepts connections; `pending` after 2.5 seconds.
 * @throws ServerStartError with the reason from its log
 * @throws FencedError when a newer attempt acted on this home
 */
export async function startServer(plan: ServerPlan): Promise<StartedServer | 'pending'> {
  const deadline = performance.now() + START_MS
  const pgdata = join(plan.home, 'pgdata')
  if (!existsSync(pgdata)) throw new Error(`There is no database in ${plan.home}.`)
  while (performance.now() < deadline) {
    const outcome = await startOnce(plan, pgdata, deadline)
    // The server was shutting down and is gone now: the next turn starts it.
    if (outcome !== 'gone') return outcome
  }
  return 'pending'
}

async function startOnce(
  plan: ServerPlan,
  pgdata: string,
  deadline: number,
): Promise<StartedServer | 'pending' | 'gone'> {
  const log = openLog(plan.logFile)
  const progress = watchProgress(plan.home, deadline)
  try {
    const effect = forkEffect(startArgs(plan, pgdata), plan.logFile)
    const first = await Promise.race([progress.ready(), effect.ended])
    if (first && 'code' in first) return await endedEarly(plan, first.code, log.size, progress, deadline)
    // An empty message ends the effect while the server continues to start: the next call finds it.
    effect.tell(first ? `${first.pid}\n` : '')
    if (first === undefined) return 'pending'
    const { code } = await effect.ended
    return code === 0 ? { ...first, isNew: true } : await endedEarly(plan, code, log.size, progress, deadline)
  } finally {
    progress.close()
    closeSync(log.file)
  }
}

/** Resolves when the server of a home is ready or has ended, at the latest after four seconds. */
export async function awaitSettled(home: string): Promise<void> {
  if (!existsSync(join(home, 'pgdata'))) return
  const progress = watchProgress(home, performance.now() + SETTLE_MS)
  const over = new AbortController()
  const gone = runEffectHere(['wait', home, String(SETTLE_MS / 1000)], { signal: over.signal })
  await Promise.race([progress.ready(), gone]).catch(() => undefined)
  over.abort()
  progress.close()
  await gone.catch(() => undefined)
}

/** Interprets an exit code that came before a server was ready. Errors: the reason why it did not start. */
async function endedEarly(
  plan: ServerPlan,
  code: number | null,
  logSize: number,
  progress: ReturnType<typeof watchProgress>,
  deadline: number,
): Promise<StartedServer | 'pending' | 'gone'> {
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

/** Ends an unusable server: its postmaster.pid was damaged, or it was started without walls. */
async function endStray({ home, fence }: ServerPlan, over: AbortSignal): Promise<void> {
  if ((await reporting(home)) !== undefined || over.aborted) return
  await urgeToStop(home, { fence })
}

/** Waits until a server that another call started is ready and sealed. Returns `gone` when it ended. */
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
  const outcome = await runEffect(['seal', home, fenceText(fence), runningUid(home), walls.argument, socketDir])
  return outcome === 'done' ? { ...found, isNew: false } : outcome === 'gone' ? 'gone' : 'pending'
}

/** The uid of a running server, for effects: that of its data directory. */
const runningUid = (home: string): string =>
  process.getuid?.() === 0 ? String(statSync(join(home, 'pgdata')).uid) : '-'

function startArgs(plan: ServerPlan, pgdata: string): string[] {
  const { home, owner, socketDir, bin } = plan
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
    // Neap detects a server's end at once. A server that restarts itself without space for its recovery hangs for ever.
    restart_after_crash: 'off',
    // One call before recovery instead of one for each file.
    ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
    // A killed server leaves its segments behind; without a uid per branch to identify them, keep them in the data
    // directory.
    ...(process.getuid?.() === 0 ? {} : { dynamic_shared_memory_type: 'mmap' }),
    ...plan.overrides,
  }
  const postgres = [join(bin, 'postgres'), '-D', pgdata]
  for (const [name, value] of Object.entries(settings)) postgres.push('-c', `${name}=${value}`)
  const walls = [
    plan.walls.argument,
    plan.root,
    mountsOf({ bin, conf, pgdata, sockets: socketDir }, plan.egress !== ''),
  ]
  const as = owner ? [String(owner.uid), String(owner.gid)] : ['-', '-']
  const instance = randomUUID()
  const given = [instance, String(plan.processes), plan.groups(instance), socketDir, plan.egress, plan.config, plan.hba]
  return ['start', home, fenceText(plan.fence), ...as, ...walls, ...given, ...postgres]
}

/** Turns changes of postmaster.pid into promises; all resolve to undefined at the deadline. */
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
    /** The running server, once it is ready. */
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

/** One that recovers to a moment says `standby` before it is there. */
const isReady = (file: PostmasterFile): boolean => file.status === 'ready'

/** The server of a home, as its files report it. Returns undefined when no server runs or it has not reported yet. */
function runningIn(home: string): RunningServer | undefined {
  const noted = notedServer(home)
  const file = noted && readPostmasterFile(join(home, 'pgdata'))
  return file && { ...noted, startedAt: file.startedAt, ready: isReady(file) }
}

/** The running server of a home, if any. Waits up to a second for one that has just started. */
export async function findServer(home: string): Promise<RunningServer | undefined> {
  // On Linux the note identifies a process uniquely. Testing the kernel lock costs a process.
  const noted = process.platform === 'linux' ? runningIn(home) : undefined
  if (noted) return noted
  if ((await runEffect(['wait', home, '0'])) !== 'held' || !existsSync(join(home, 'pgdata'))) return undefined
  return reporting(home)
}

/** The server of a home as soon as it reports its state, within a second. */
async function reporting(home: string): Promise<RunningServer | undefined> {
  const known = runningIn(home)
  if (known) return known
  return awaitCondition({
    subscribe(wake) {
      const watcher = watch(join(home, 'pgdata'), wake)
      return () => watcher.close()
    },
    read: () => runningIn(home),
    isMet: (found) => found !== undefined,
    until: AbortSignal.timeout(REPORT_MS),
  })
}

/** Whether a server runs in a home whose start left no note: one of an earlier Neap, without walls. */
export async function hasEarlierServer(home: string): Promise<boolean> {
  return !hasNote(home) && (await runEffect(['wait', home, '0'])) === 'held'
}

/**
 * Writes another configuration for the server of a home, read at the next reload or start.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function configureServer(home: string, config: string, fence: Fence): Promise<void> {
  const outcome = await runEffect(['configure', home, fenceText(fence), config])
  if (outcome === 'busy') throw new Error(`Another effect on ${home} takes long.`)
}
