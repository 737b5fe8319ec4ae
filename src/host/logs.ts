import {
  closeSync,
  constants,
  createReadStream,
  createWriteStream,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
} from 'node:fs'
import { rename, rm, stat, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'

const ROTATE_BYTES = 10 * 2 ** 20
const KEPT = 3

/** Opens a log for appending. No compute can write its directory, so no link of a compute can redirect it. */
export function openLog(path: string): { file: number; size: number } {
  // Not recursive: a recursive mkdir of Node reports a read-only filesystem as a missing directory.
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

/** Removes the log directory of a home that no longer exists. */
export function dropLog(path: string): void {
  rmSync(dirname(path), { recursive: true, force: true })
}

/** The failure in a log: the last lines since `from` that are not routine, without time and pid, in one line. */
export function complaintIn(path: string, from: number): string {
  return telling(endOf(path, from))
}

/**
 * As `complaintIn`, for the lines that a server logged about itself after its start at this time, once it was ready.
 * Empty when there is no log: a server that was killed writes no line about that.
 */
export function lastWordsIn(path: string, startedAt: Date): string {
  if (!existsSync(path)) return ''
  const lines = endOf(path, 0).filter((line) => isOwn(line) && timeOf(line) >= startedAt)
  return telling(linesWhenReady(lines, startedAt))
}

const STARTS = /LOG: +starting PostgreSQL/
const IS_READY = /LOG: +database system is ready to accept/
/** From the time that a server gives as that of its start, in whole seconds, to its first line. */
const FIRST_LINE_MS = 1_500

/** Whether a log has such a line since the last start of a server; false when there is no log. */
export function saysSinceStart(path: string, pattern: RegExp): boolean {
  if (!existsSync(path)) return false
  const lines = endOf(path, 0)
  return lines.slice(lines.findLastIndex((line) => STARTS.test(line)) + 1).some((line) => pattern.test(line))
}

/**
 * Of the own lines of servers of one store those of the server that started then, from when it was ready to the start
 * of the next one. Servers log much while they start, above all after a crash. Of two that started in one second the
 * later one counts.
 */
function linesWhenReady(lines: readonly string[], startedAt: Date): readonly string[] {
  const starts = lines.flatMap((line, index) => (STARTS.test(line) ? [index] : []))
  const isLater = (index: number) => +timeOf(lines[index] ?? '') >= +startedAt + FIRST_LINE_MS
  // Of a long log only the end is read: its own start may be missing.
  const its = lines.slice(
    starts.findLast((index) => !isLater(index)) ?? 0,
    starts.find((index) => isLater(index)),
  )
  return its.slice(its.findIndex((line) => IS_READY.test(line)) + 1)
}

/** The lines at the end of a log, at most 16 KiB and from `from` on; the first may be partial. */
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

/** A line of no session, or the last line of a session that took the server down. */
const isOwn = (line: string): boolean => /\[\d+\] (LOG|FATAL): | PANIC: /.test(line)

const timeOf = (line: string): Date => new Date(line.replace(/^(\S+) (\S+) UTC.*/, '$1T$2Z'))

const ROUTINE =
  /^LOG: +(background worker "logical replication launcher" .* exited with exit code 1$|configuration file |starting |listening |database system |received |aborting |shutting |redo |checkpoint |entering |completed backup |consistent |creating missing WAL|invalid (record|magic)|unexpected pageaddr|all server |archive|restored|end-of-recovery|last completed)/

function withoutPrefix(line: string): string {
  return line.replace(/^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[\d+\] (?:\S+@\S+ )?/, '').trim()
}

/**
 * Rotates a log that has grown over a size and keeps the end of it, of that size, and of two before. It is copied and
 * truncated, not renamed, since the writer keeps the file open; a line written in between is lost. A missing log is
 * fine.
 */
export async function rotateLog(log: string, maxBytes = ROTATE_BYTES): Promise<void> {
  const size = await stat(log).then(
    (found) => found.size,
    () => 0,
  )
  if (size <= maxBytes) return
  for (let number = KEPT - 1; number >= 1; number--) {
    await rename(`${log}.${number}`, `${log}.${number + 1}`).catch(() => undefined)
  }
  try {
    await pipeline(
      createReadStream(log, { start: size - maxBytes, end: size - 1 }),
      createWriteStream(`${log}.1`, { mode: 0o600 }),
    )
  } catch (error) {
    // On a full disk the room matters more than the old lines.
    await rm(`${log}.1`, { force: true })
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
  await truncate(log)
}
