/**
 * Postgres servers as processes: a home directory with `pgdata` and a kernel lock that a server holds for its life. The lock alone says
 * whether one runs; `postmaster.pid` says which, where and how far it is:
 *
 *     (no lock) --start--> starting --> ready --SIGINT--> stopping --> (no lock)
 */
import { closeSync, existsSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { ConfigurationError, type Fence, type Progress } from '../backend.ts'
import { fenceArgs, isEffectCode, outcomeOf, runEffect, spawnEffect } from './effect.ts'
import { complaintIn, dropLog, openLog } from './logs.ts'
import { type PostmasterFile, postmasterIn, readPostmasterFile, worksIn } from './postmaster_file.ts'

/** A server to be started. `config` becomes `neap.conf`; `args` follow it on the command line, where nothing outranks them. */
export interface ServerPlan {
  /** Holds `pgdata`; locks and configuration are kept beside it. */
  readonly home: string
  readonly postgres: string
  readonly socketDir: string
  readonly port: number
  readonly listen: string
  readonly hbaFile: string
  readonly config: string
  readonly logFile: string
  readonly fence?: Fence | undefined
}

export interface RunningServer {
  readonly pid: number
  readonly port: number
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
  const known = readPostmasterFile(pgdata)?.pid ?? 0
  const log = openLog(plan.logFile)
  const progress = watchProgress(pgdata, deadline)
  try {
    const child = spawnEffect(startArgs(plan, pgdata, known), log.file)
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', resolve)
    })
    child.unref()
    const first = await Promise.race([progress.ready(child.pid ?? 0), ended.then((code) => ({ code }))])
    if (first === undefined) return 'pending'
    if (!('code' in first)) return first
    if (!isEffectCode(first.code)) {
      const complaint =
        complaintIn(plan.logFile, log.size) || `it ended with code ${first.code}; its log is ${plan.logFile}`
      const [refused = '', rest] = complaint.split(/; FATAL: +configuration file .* contains errors/)
      if (rest !== undefined) throw new ConfigurationError(`Postgres refuses its settings: ${refused}`)
      throw new ServerStartError(`Postgres did not start: ${complaint}`)
    }
    const outcome = outcomeOf(first.code, complaintIn(plan.logFile, log.size))
    if (outcome === 'gone') {
      if (!existsSync(plan.home)) dropLog(plan.logFile)
      throw new Error(`There is no database in ${plan.home}.`)
    }
    if (outcome === 'busy') return 'pending'
    return await joinRunning(plan, progress, deadline)
  } finally {
    progress.close()
    closeSync(log.file)
  }
}

/** A server whose postmaster.pid was spoilt can be asked for nothing any more, and would end itself within a minute: it is asked to now. */
async function endStray({ home, fence }: ServerPlan, over: AbortSignal): Promise<void> {
  const pgdata = join(home, 'pgdata')
  if ((await leadingTo(pgdata)) !== undefined || over.aborted) return
  if (postmasterIn(pgdata) !== undefined) await interruptServer(home, fence)
}

/** Waits for a server that somebody else started: until it is ready, or gone and to be started anew. */
async function joinRunning(plan: ServerPlan, progress: ReturnType<typeof watchProgress>, deadline: number) {
  const { home } = plan
  const over = new AbortController()
  endStray(plan, over.signal).catch(() => undefined)
  const seconds = Math.max(1, Math.ceil((deadline - performance.now()) / 1000))
  const gone = runEffect(['wait', home, String(seconds)], over).then(
    (outcome) => (outcome === 'held' ? undefined : ('gone' as const)),
    () => undefined,
  )
  const found = await Promise.race([progress.ready(), gone])
  over.abort()
  return found ?? 'pending'
}

function startArgs(plan: ServerPlan, pgdata: string, knownPid: number): string[] {
  const { home, socketDir } = plan
  // As it was made: whatever the data directory is called today, its owner is the one whom Postgres accepts.
  const owner = process.getuid?.() === 0 ? statSync(pgdata) : undefined
  const settings = {
    config_file: join(home, 'neap.conf'),
    hba_file: plan.hbaFile,
    listen_addresses: plan.listen,
    port: String(plan.port),
    unix_socket_directories: `"${socketDir}"`,
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    // Who starts servers here hears of their end at once. One that restarts itself without room for its recovery stands still for ever.
    restart_after_crash: 'off',
    // One call before recovery instead of one for each file.
    ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
    // A killed server leaves its segments behind; where no uid tells whose they were, they go with the data directory.
    ...(owner ? {} : { dynamic_shared_memory_type: 'mmap' }),
  }
  const postgres = [plan.postgres, '-D', pgdata]
  for (const [name, value] of Object.entries(settings)) postgres.push('-c', `${name}=${value}`)
  const identity = owner ? [String(owner.uid), String(owner.gid)] : ['-', '-']
  return ['start', home, ...fenceArgs(plan.fence), ...identity, String(knownPid), socketDir, plan.config, ...postgres]
}

/** Turns the changes of postmaster.pid into promises; all end with `undefined` at the deadline. */
function watchProgress(pgdata: string, deadline: number) {
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
  function when<T>(of: (file: PostmasterFile | undefined) => T | undefined): Promise<T | undefined> {
    return new Promise((resolve) => {
      const check = () => {
        const found = of(readPostmasterFile(pgdata))
        if (found === undefined && !late) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
    })
  }
  return {
    /** The server that is ready: that process, or whichever really runs here. */
    ready: (pid?: number) =>
      when((file) => {
        const isIt = file && (pid === undefined ? worksIn(file.pid, pgdata) : file.pid === pid)
        return isIt && isReady(file) ? runningServer(file) : undefined
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

function runningServer(file: PostmasterFile): RunningServer {
  return { pid: file.pid, port: file.port, startedAt: file.startedAt, ready: isReady(file) }
}

/** The server that runs in a home, if one does. The kernel's lock is asked first; one that has just begun is waited for, up to a second. */
export async function findServer(home: string): Promise<RunningServer | undefined> {
  const pgdata = join(home, 'pgdata')
  if ((await runEffect(['wait', home, '0'])) !== 'held' || !existsSync(pgdata)) return undefined
  return leadingTo(pgdata)
}

/** The server to which postmaster.pid leads; one that has just begun to write it is waited for, up to a second. */
async function leadingTo(pgdata: string): Promise<RunningServer | undefined> {
  const alive = () => {
    const file = readPostmasterFile(pgdata)
    return file && worksIn(file.pid, pgdata) ? runningServer(file) : undefined
  }
  return alive() ?? (await firstChange(pgdata, alive, 1000))
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
    const { outcome, signalled } = await interruptServer(home, fence)
    if (outcome === 'done' || outcome === 'gone') return 'done'
    // A server that is only just beginning has no pid to signal yet.
    const patience = signalled ? Math.ceil((deadline - performance.now()) / 1000) : 1
    if ((await waitStopped(home, patience)) === 'done') return 'done'
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

/** Asks for a fast shutdown, under the home's effect lock and only the postmaster that is really this home's. */
async function interruptServer(home: string, fence?: Fence) {
  const pgdata = join(home, 'pgdata')
  const named = readPostmasterFile(pgdata)?.pid ?? 0
  const pid = worksIn(named, pgdata) ? named : (postmasterIn(pgdata) ?? 0)
  const outcome = await runEffect(['signal', home, ...fenceArgs(fence), String(pid), 'INT'])
  return { outcome, signalled: pid > 0 }
}

/** Waits for the kernel to say that nothing runs in a home. */
export async function waitStopped(home: string, seconds: number): Promise<Progress> {
  return (await runEffect(['wait', home, String(seconds)])) === 'held' ? 'pending' : 'done'
}
