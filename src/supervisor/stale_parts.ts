import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning, type ProcessNote } from '../host/process_start.ts'
import { readState } from './data_dir.ts'

const GONE_MS = 5_000

/** Whether the supervisor of a data directory runs. Errors: UsageError (its state cannot be read). */
export function isSupervised(dataDir: string): boolean {
  const [supervisor] = readState(dataDir).processes ?? []
  return supervisor !== undefined && isRunning(supervisor)
}

/**
 * Ends parts that outlived a killed supervisor, such as frozen ones. A process that has got the pid of one since is
 * left alone. Resolves when the ports of all are free again, or after five seconds.
 * @param supervisor it has ended, or is about to
 */
export async function endStaleParts(supervisor: ProcessNote | undefined, parts: readonly ProcessNote[]): Promise<void> {
  const killed = parts.filter(isRunning)
  for (const { pid } of killed) kill(pid)
  const all = supervisor === undefined ? parts : [supervisor, ...parts]
  const until = Date.now() + GONE_MS
  while (Date.now() < until && (killed.some(isRunning) || all.some(isEnding))) await sleep(5)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // It has ended by itself since it was looked at.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Whether a process ends but may have open files: it loses its memory before its last thread closes its files. */
function isEnding({ pid }: ProcessNote): boolean {
  try {
    const isZombie = /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    const hasFiles = !isZombie || readdirSync(`/proc/${pid}/task`).length > 1
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === '' && hasFiles
  } catch {
    return false
  }
}
