import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/** The contents of a running server's `postmaster.pid` (Postgres source, miscadmin.h: "lock file line numbers"). */
export interface PostmasterFile {
  readonly startedAt: Date
  /** `starting`, `ready`, `standby` or `stopping`; empty before the first of them. */
  readonly status: string
  /** The System V segment that marks the data directory as in use. */
  readonly sharedMemoryId: number | undefined
}

/** Reads a data directory's postmaster.pid: only a small regular file, since the server's own user can write it. */
export function readPostmasterFile(pgdata: string): PostmasterFile | undefined {
  const lines = readSmallFile(join(pgdata, 'postmaster.pid'))?.split('\n')
  if (!lines) return undefined
  const startedAt = Number(lines[2])
  // The second line names the data directory: reject the file of another server.
  if (lines[1] !== pgdata || !isPositive(startedAt)) return undefined
  const sharedMemoryId = Number(lines[6]?.trim().split(/\s+/)[1])
  return {
    startedAt: new Date(startedAt * 1000),
    status: lines[7]?.trim() ?? '',
    sharedMemoryId: isPositive(sharedMemoryId) ? sharedMemoryId : undefined,
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
