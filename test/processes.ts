import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Process {
  readonly pid: number
  readonly command: string
  readonly directory: string
}

/** The processes of a data directory, found by working directory, command line or environment. Linux only. */
export function processesOf(dataDir: string): Process[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  return pids.flatMap((pid) => {
    try {
      const command = read(`/proc/${pid}/cmdline`)
      const directory = readlinkSync(`/proc/${pid}/cwd`)
      const belongs = [command, directory, read(`/proc/${pid}/environ`)].some((text) => text.includes(dataDir))
      return belongs ? [{ pid: Number(pid), command, directory }] : []
    } catch {
      // It ended meanwhile, or belongs to another user.
      return []
    }
  })
}

/** The processes that forward packets for the computes of a data directory. Other users see their commands only. */
export function egressHelpersOf(dataDir: string): number[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid) || !readIfThere(`/proc/${pid}/cmdline`).startsWith('pasta\0')) return []
    // Its parent is the postmaster.
    const parent = /^PPid:\s+(\d+)/m.exec(readIfThere(`/proc/${pid}/status`))?.[1]
    return readIfThere(`/proc/${parent}/cmdline`).includes(`\0${dataDir}`) ? [Number(pid)] : []
  })
}

const ENDING_MS = 5_000

/**
 * The processes of a data directory that do not end by themselves. A process that deletes files may outlive the one
 * that started it for a moment.
 */
export async function remainingProcesses(dataDir: string): Promise<Process[]> {
  const deadline = performance.now() + ENDING_MS
  for (;;) {
    const left = processesOf(dataDir)
    if (left.length === 0 || performance.now() > deadline) return left
    await sleep(10)
  }
}

const read = (file: string): string => readFileSync(file, 'utf8').replaceAll('\0', ' ').trim()

/**
 * The postmasters of a data directory: processes called as `postgres -D`, without their children, which have that
 * command line for a moment after fork.
 */
export function postmastersOf(dataDir: string): Process[] {
  const found = processesNamed(dataDir)
  return found.filter(({ parent }) => !found.some(({ pid }) => pid === parent))
}

function processesNamed(dataDir: string): (Process & { readonly parent: number })[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return []
    try {
      const command = read(`/proc/${pid}/cmdline`)
      const directory = /^\S+\/postgres -D (\S+)/.exec(command)?.[1]
      if (!directory?.startsWith(dataDir)) return []
      const parent = Number(/^\d+ \(.*\) \S (\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1])
      return [{ pid: Number(pid), command, directory, parent }]
    } catch {
      return []
    }
  })
}

const PATIENCE_MS = 60_000

/** Polls until `ask` returns a truthy value; 0 and '' do not count. Errors: no such value within a minute. */
export async function until<T>(
  what: string,
  ask: () => T | undefined | false | Promise<T | undefined | false>,
): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    if (performance.now() > deadline) throw new Error(`this did not happen within ${PATIENCE_MS / 1000} s: ${what}`)
    await sleep(10)
  }
}

/** Kills processes with SIGKILL and waits until they have ended. A process that has ended already is not an error. */
export async function kill(...pids: readonly (number | undefined)[]): Promise<void> {
  const known = pids.filter((pid) => pid !== undefined)
  assert.equal(known.length, pids.length, 'what is to be killed does not run')
  // 0 is the group of this process, and with it all that runs these tests.
  assert.ok(
    known.every((pid) => pid > 0),
    'what is to be killed is not known',
  )
  for (const pid of known) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  await until(`the end of ${known.join(', ')}`, () => !known.some(isAlive))
}

/** Returns true when a process runs; false for a zombie. */
function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Maps the pids of a postmaster's children inside its pid namespace to their pids on the host. */
export function outsidePids(postmaster: number): Map<number, number> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return new Map(
    pids.flatMap((pid): [number, number][] => {
      const status = readIfThere(`/proc/${pid}/status`)
      if (Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) !== postmaster) return []
      const inside = /^NSpid:.*?(\d+)$/m.exec(status)?.[1]
      return [[Number(inside), Number(pid)]]
    }),
  )
}

/** The host's pid of a server process, by its pid inside the pid namespace. */
export function outsidePid(postmaster: number, inside: number): number {
  const pid = outsidePids(postmaster).get(inside)
  if (pid === undefined) throw new Error(`process ${postmaster} has no child that it knows as ${inside}`)
  return pid
}

/** The text of a file; empty when it cannot be read, as for a process that has ended. */
export function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
