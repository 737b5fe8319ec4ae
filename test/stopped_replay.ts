import { setTimeout as sleep } from 'node:timers/promises'
import { readIfThere } from './processes.ts'

const LOOKS = 2_000
const BETWEEN_LOOKS_MS = 2

/**
 * Freezes the process that replays WAL for a postmaster, as soon as it does, and returns its pid. Returns undefined
 * when no replay was seen.
 */
export async function stopReplay(postmaster: () => number | undefined): Promise<number | undefined> {
  for (let look = 0; look < LOOKS; look++) {
    const parent = postmaster()
    for (const pid of readIfThere(`/proc/${parent}/task/${parent}/children`).split(' ').filter(Boolean).map(Number)) {
      if (!readIfThere(`/proc/${pid}/cmdline`).startsWith('postgres: startup recovering')) continue
      process.kill(pid, 'SIGSTOP')
      return pid
    }
    await sleep(BETWEEN_LOOKS_MS)
  }
  return undefined
}
