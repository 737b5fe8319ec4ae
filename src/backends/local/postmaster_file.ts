import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What a running Postgres says of itself in `postmaster.pid` (Postgres source, miscadmin.h: "lock file line numbers"). */
export interface PostmasterFile {
  readonly pid: number
  readonly startedAt: Date
  readonly port: number
  /** `starting`, `ready`, `standby` or `stopping`; empty before the first. */
  readonly status: string
  /** The System V segment that marks the data directory as in use. */
  readonly sharedMemoryId: number | undefined
}

/** Reads a data directory's postmaster.pid. The server's own user may write there, so nothing but a small plain file is read. */
export function readPostmasterFile(pgdata: string): PostmasterFile | undefined {
  const lines = readSmallFile(join(pgdata, 'postmaster.pid'))?.split('\n')
  if (!lines) return undefined
  const [pid, , startedAt, port] = lines.map(Number)
  if (!isPositive(pid) || !isPositive(startedAt)) return undefined
  const sharedMemoryId = Number(lines[6]?.trim().split(/\s+/)[1])
  return {
    pid,
    startedAt: new Date(startedAt * 1000),
    port: port ?? 0,
    status: lines[7]?.trim() ?? '',
    sharedMemoryId: isPositive(sharedMemoryId) ? sharedMemoryId : undefined,
  }
}

/** Whether a process works in that data directory, as every process of its server does. A zombie and a reused pid do not. */
export function worksIn(pid: number, pgdata: string): boolean {
  try {
    if (process.platform !== 'linux') return process.kill(pid, 0)
    const cwd = statSync(`/proc/${pid}/cwd`)
    const directory = statSync(pgdata)
    return cwd.dev === directory.dev && cwd.ino === directory.ino
  } catch {
    return false
  }
}

/** The postmaster that works in a data directory, whatever its postmaster.pid says: the one process there that is no child of another. Linux only. */
export function postmasterIn(pgdata: string): number | undefined {
  if (process.platform !== 'linux') return undefined
  const pids = readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && worksIn(pid, pgdata))
  const heads = pids.filter((pid) => !pids.includes(parentOf(pid)) && isPostmaster(pid, pgdata))
  return heads.length === 1 ? heads[0] : undefined
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(readProcess(pid, 'status'))?.[1] ?? 0)
}

/** By how it was called. A child that was orphaned has another title. */
function isPostmaster(pid: number, pgdata: string): boolean {
  const [, flag, directory] = readProcess(pid, 'cmdline').split('\0')
  return flag === '-D' && directory === pgdata
}

function readProcess(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}

function readSmallFile(path: string): string | undefined {
  let file: number
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
  try {
    if (!fstatSync(file).isFile()) return undefined
    const buffer = Buffer.alloc(4096)
    return buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, 0))
  } finally {
    closeSync(file)
  }
}

function isPositive(value: number | undefined): value is number {
  return value !== undefined && Number.isSafeInteger(value) && value > 0
}
