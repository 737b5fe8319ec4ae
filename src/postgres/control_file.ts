import { constants, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { lsnText } from './wal.ts'

/** The bytes of pg_control (pg_control.h, PG_CONTROL_FILE_SIZE). */
const CONTROL_FILE_BYTES = 8192

/** Places in pg_control of Postgres 15 to 18 (pg_control.h). */
const AT = { state: 16, checkpoint: 32, redo: 40, end: 136, endTimeline: 144 }
const READ_BYTES = 148
/** States of a cluster: it was shut down; it was shut down in a recovery, or it is in one. */
const SHUT_DOWN = 1
const IN_RECOVERY = new Set([2, 5])

/** Reads an open control file, and no more of it than Postgres writes: its server's user may have made it any size. */
export function readControlFile(file: number): Buffer {
  const buffer = Buffer.alloc(CONTROL_FILE_BYTES)
  return buffer.subarray(0, readSync(file, buffer, 0, CONTROL_FILE_BYTES, 0))
}

/**
 * The position in the WAL of the latest checkpoint of a data directory, as Postgres writes it ("0/3000028"): after a
 * clean stop that of all that was written. Of a clone that has yet to recover: the position to which it will. Errors:
 * the system's.
 */
export async function checkpointPosition(pgdata: string): Promise<string> {
  const end = await recoveryEnd(pgdata)
  return lsnText(end?.position ?? Number((await readFields(pgdata)).readBigUInt64LE(AT.checkpoint)))
}

/**
 * The position of the last checkpoint of a data directory that was shut down cleanly, which ends its WAL; undefined for
 * others. Errors: the system's.
 */
export async function shutdownPosition(pgdata: string): Promise<string | undefined> {
  const control = await readFields(pgdata)
  if (control.readUInt32LE(AT.state) !== SHUT_DOWN) return undefined
  return lsnText(Number(control.readBigUInt64LE(AT.checkpoint)))
}

/** Where a recovery begins and ends, in bytes, and its timeline as it begins a segment's name. */
export interface RecoveryEnd {
  readonly redo: number
  readonly position: number
  readonly timeline: string
}

/** Up to where a clone of a running server must recover; undefined for other data directories. Errors: the system's. */
export async function recoveryEnd(pgdata: string): Promise<RecoveryEnd | undefined> {
  const control = await readFields(pgdata)
  const position = Number(control.readBigUInt64LE(AT.end))
  if (!IN_RECOVERY.has(control.readUInt32LE(AT.state)) || position === 0) return undefined
  const timeline = control.readUInt32LE(AT.endTimeline).toString(16).toUpperCase().padStart(8, '0')
  return { redo: Number(control.readBigUInt64LE(AT.redo)), position, timeline }
}

/** Reads only a regular file: the server's own user can write there, and a FIFO would block this process. */
async function readFields(pgdata: string): Promise<Buffer> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(join(pgdata, 'global/pg_control'), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new Error(`pg_control of ${pgdata} is not a file`)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, 0)
    if (bytesRead < READ_BYTES) throw new Error(`pg_control of ${pgdata} is cut short`)
    return buffer
  } finally {
    await file.close()
  }
}
