import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ComputeWatch } from '../backend.ts'
import { watchArgs } from './effect.ts'

const AGAIN_MS = 1_000

/**
 * Tells of processes when they have ended, whoever's children they are. The kernel tells of each (pidfd_open(2)), to one small
 * process that has them all: nothing is looked at again and again.
 */
export function watchProcesses(ended: (pid: number) => void): ComputeWatch {
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
    // Whoever ended it, or kept it from beginning: those that it had are told of by the next.
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
