import { closeSync, constants, existsSync, fstatSync, mkdirSync, openSync, readSync, rmSync } from 'node:fs'
import { copyFile, readdir, rename, stat, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const ROTATE_BYTES = 10 * 2 ** 20
const KEPT = 3

/** Opens a log to append to. It belongs to Neap and lies where no compute may write, so no link of a compute's can redirect it. */
export function openLog(path: string): { file: number; size: number } {
  // Not with its parents: asked for those too, Node takes a read-only filesystem for a missing directory.
  if (!existsSync(dirname(path))) makeOnce(dirname(path))
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
  const file = openSync(path, flags, 0o600)
  return { file, size: fstatSync(file).size }
}

function makeOnce(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Forgets the log of a home that turned out to be gone. */
export function dropLog(path: string): void {
  rmSync(dirname(path), { recursive: true, force: true })
}

/** What a log says of a failure: the last lines since `from` that are not routine, without time and pid, in one line. */
export function complaintIn(path: string, from: number): string {
  return telling(endOf(path, from))
}

/** What a server says of its own end, as apart from what it tells clients: as `complaintIn`, of lines since a time. Nothing where there is no log. */
export function lastWordsIn(path: string, since: Date): string {
  return existsSync(path) ? telling(endOf(path, 0).filter((line) => isOwn(line) && timeOf(line) >= since)) : ''
}

/** The lines at the end of a log, 16 KiB at most and nothing before `from`; the first may not be whole. */
export function endOf(path: string, from: number): string[] {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const start = Math.max(from, fstatSync(file).size - 16_384)
    const buffer = Buffer.alloc(16_384)
    return buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, start)).split('\n')
  } finally {
    closeSync(file)
  }
}

function telling(lines: readonly string[]): string {
  return lines
    .map(withoutPrefix)
    .filter((line) => line !== '' && !ROUTINE.test(line))
    .slice(-3)
    .join('; ')
}

/** A line that is no session's, or the last of one that took the server down with it. */
const isOwn = (line: string): boolean => /\[\d+\] (LOG|FATAL): | PANIC: /.test(line)

const timeOf = (line: string): Date => new Date(line.replace(/^(\S+) (\S+) UTC.*/, '$1T$2Z'))

const ROUTINE =
  /^LOG: +(starting |listening |database system |received |aborting |shutting |redo |checkpoint |entering |consistent |invalid record|all server |archive|restored|end-of-recovery|last completed)/

function withoutPrefix(line: string): string {
  return line.replace(/^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[\d+\] (?:\S+@\S+ )?/, '').trim()
}

/** Rotates every `postgres.log` under a directory of logs. */
export async function rotateLogs(directory: string): Promise<void> {
  for (const id of await readdir(directory)) await rotateLog(join(directory, id, 'postgres.log'))
}

/**
 * Rotates a log that has grown over 10 MiB and keeps three of before. Copied and emptied rather than renamed, since who writes it
 * keeps the file open; a line written in between is lost. One that does not exist is fine.
 */
export async function rotateLog(log: string): Promise<void> {
  const size = await stat(log).then(
    (found) => found.size,
    () => 0,
  )
  if (size <= ROTATE_BYTES) return
  for (let number = KEPT - 1; number >= 1; number--) {
    await rename(`${log}.${number}`, `${log}.${number + 1}`).catch(() => undefined)
  }
  await copyFile(log, `${log}.1`)
  await truncate(log)
}
