import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const GONE_MS = 5_000

/**
 * Ends parts that outlived a killed supervisor, such as frozen ones. Resolves when the ports of all are free again, or
 * after five seconds.
 * @param supervisor its pid; it has ended, or is about to
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

/** Whether a pid is a running process of Neap, any ending process that may still have open files, or another. */
function stateOf(pid: number): 'runs' | 'ends' | 'other' {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    if (command.includes('src/main.ts')) return 'runs'
    // An ending process loses its memory, and with it its command line, before its last thread closes its files.
    const isZombie = /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    const hasFiles = !isZombie || readdirSync(`/proc/${pid}/task`).length > 1
    return command === '' && hasFiles ? 'ends' : 'other'
  } catch {
    return 'other'
  }
}
