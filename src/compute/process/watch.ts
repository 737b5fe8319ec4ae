import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ComputeWatch } from '../compute.ts'
import { watchArgs } from '../../host/effect.ts'
import { homeOf, type Layout } from '../../host/layout.ts'
import { rotateLog } from '../../host/logs.ts'
import { notedServer } from './server_note.ts'

const AGAIN_MS = 1_000
/** A session can log as fast as the disk takes it, so the interval bounds a log as much as the size does. */
const ROTATE_MS = 1_000
const MAX_LOG_BYTES = 2 * 2 ** 20

interface Followed {
  readonly id: string
  readonly log: string
}

/**
 * Follows computes by the processes that they are, and rotates their logs.
 * @param logOf the log of a store's server
 */
export function watchComputes(
  layout: Layout,
  logOf: (storeId: string) => string,
  ended: (id: string) => void,
): ComputeWatch {
  const followed = new Map<number, Followed>()
  const processes = watchProcesses((pid) => {
    const compute = followed.get(pid)
    followed.delete(pid)
    if (compute !== undefined) ended(compute.id)
  })
  const logs = startPeriodicRotation(() => [...followed.values()].map(({ log }) => log))
  return {
    follow({ id, storeId }) {
      const server = notedServer(homeOf(layout, storeId))
      if (server?.instance !== id) {
        setImmediate(() => ended(id))
        return
      }
      followed.set(server.pid, { id, log: logOf(storeId) })
      processes.follow(server.pid)
    },
    stop() {
      logs.stop()
      processes.stop()
    },
  }
}

function startPeriodicRotation(logs: () => string[]): { stop(): void } {
  let isBusy = false
  const rotate = async (): Promise<void> => {
    if (isBusy) return
    isBusy = true
    // A log that cannot be rotated now is tried again in a second.
    for (const log of logs()) await rotateLog(log, MAX_LOG_BYTES).catch(() => undefined)
    isBusy = false
  }
  const timer = setInterval(() => void rotate(), ROTATE_MS)
  return { stop: () => clearInterval(timer) }
}

/**
 * Calls `ended` when a followed process has ended, also one that is not a child. One small process receives the exits
 * of all through pidfds (pidfd_open(2)), without polling.
 */
function watchProcesses(ended: (pid: number) => void): { follow(pid: number): void; stop(): void } {
  const followed = new Set<number>()
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let watcher = begin()

  function begin(): ChildProcess {
    const child: ChildProcess = spawn('perl', watchArgs.args, { stdio: ['pipe', 'pipe', 'ignore'], env: watchArgs.env })
    // Without descriptors there are no streams, and `error` is emitted.
    child.stdin?.on('error', () => undefined)
    if (child.stdout) createInterface({ input: child.stdout }).on('line', read)
    // When the watcher has ended or could not start, its replacement follows the same pids.
    const again = (): void => {
      if (!stopped) timer ??= setTimeout(next, AGAIN_MS)
    }
    child.once('error', again).once('exit', again)
    for (const pid of followed) child.stdin?.write(`${pid}\n`)
    return child
  }

  function read(line: string): void {
    const pid = Number(line)
    if (!stopped && followed.delete(pid)) ended(pid)
  }

  function next(): void {
    timer = undefined
    watcher = begin()
  }

  return {
    follow(pid) {
      if (followed.has(pid)) return
      followed.add(pid)
      watcher.stdin?.write(`${pid}\n`)
    },
    stop() {
      stopped = true
      clearTimeout(timer)
      watcher.stdin?.end()
    },
  }
}
