import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ComputeWatch } from '../compute.ts'
import { watchArgs } from '../../host/effect.ts'
import { homeOf, type Layout } from '../../host/layout.ts'
import { notedServer } from './server_note.ts'

const AGAIN_MS = 1_000

/** Follows computes by the processes that they are. */
export function watchComputes(layout: Layout, ended: (id: string) => void): ComputeWatch {
  const idOf = new Map<number, string>()
  const processes = watchProcesses((pid) => {
    const id = idOf.get(pid)
    idOf.delete(pid)
    if (id !== undefined) ended(id)
  })
  return {
    follow({ id, storeId }) {
      const server = notedServer(homeOf(layout, storeId))
      if (server?.instance !== id) {
        setImmediate(() => ended(id))
        return
      }
      idOf.set(server.pid, id)
      processes.follow(server.pid)
    },
    stop: () => processes.stop(),
  }
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
    const child = spawn('perl', watchArgs.args, { stdio: ['pipe', 'pipe', 'ignore'], env: watchArgs.env })
    child.stdin.on('error', () => undefined)
    createInterface({ input: child.stdout }).on('line', (line) => {
      const pid = Number(line)
      if (!stopped && followed.delete(pid)) ended(pid)
    })
    // When the watcher has ended or could not start, its replacement follows the same pids.
    const again = (): void => {
      if (!stopped) timer ??= setTimeout(next, AGAIN_MS)
    }
    child.once('error', again).once('exit', again)
    for (const pid of followed) child.stdin.write(`${pid}\n`)
    return child
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
