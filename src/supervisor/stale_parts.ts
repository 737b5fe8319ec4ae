import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const GONE_MS = 5_000

/**
 * Ends parts that outlived a killed supervisor, as a frozen one would, and resolves when the ports of all are free again, or after a while.
 * @param supervisor its pid; it is gone, or about to be
 */
export async function endStaleParts(supervisor: number | undefined, parts: readonly number[]): Promise<void> {
  const killed = parts.filter((pid) => stateOf(pid) === 'runs')
  for (const pid of killed) process.kill(pid, 'SIGKILL')
  const isThere = (pid: number): boolean => {
    const state = stateOf(pid)
    return state === 'ends' || (state === 'runs' && killed.includes(pid))
  }
  const all = supervisor === undefined ? parts : [supervisor, ...parts]
  const until = Date.now() + GONE_MS
  while (all.some(isThere) && Date.now() < until) await sleep(5)
}

/** Whether a pid is a process of Neap that runs, one of whatever kind that is ending and may have its files still, or another. */
function stateOf(pid: number): 'runs' | 'ends' | 'other' {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    if (command.includes('src/main.ts')) return 'runs'
    // Whoever ends loses its memory, and with it what it was called with, before its files, which its last thread closes.
    const isZombie = /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    const hasFiles = !isZombie || readdirSync(`/proc/${pid}/task`).length > 1
    return command === '' && hasFiles ? 'ends' : 'other'
  } catch {
    return 'other'
  }
}
