import { readSync } from 'node:fs'
import { join } from 'node:path'
import { readSmallFile } from './small_file.ts'
import { lsnText, segmentAt } from './wal.ts'

/** The bytes of pg_control (pg_control.h, PG_CONTROL_FILE_SIZE). */
const CONTROL_FILE_BYTES = 8192

/** Places in pg_control of Postgres 15 to 18 (pg_control.h). */
const AT = { state: 16, checkpoint: 32, redo: 40, timeline: 48, fullPageWrites: 56, end: 136, endTimeline: 144 }
/** States of a cluster: it was shut down; it was shut down in a recovery, or it is in one. */
const SHUT_DOWN = 1
const SHUT_DOWN_IN_RECOVERY = 2
const IN_RECOVERY = new Set([SHUT_DOWN_IN_RECOVERY, 5])

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
  const control = await controlBytes(pgdata)
  return lsnText(recoveryEndIn(control)?.position ?? positionAt(control, AT.checkpoint))
}

/**
 * The position of the last checkpoint of a data directory that was shut down cleanly, which ends its WAL; undefined for
 * others. Errors: the system's.
 */
export async function shutdownPosition(pgdata: string): Promise<string | undefined> {
  const last = await shutdownCheckpoint(pgdata)
  return last && lsnText(last.position)
}

/** The last checkpoint of a data directory that was shut down cleanly; undefined for others. Errors: the system's. */
export async function shutdownCheckpoint(
  pgdata: string,
): Promise<{ readonly position: number; readonly timeline: string } | undefined> {
  const control = await controlBytes(pgdata)
  if (control.readUInt32LE(AT.state) !== SHUT_DOWN) return undefined
  return { position: positionAt(control, AT.checkpoint), timeline: timelineAt(control, AT.timeline) }
}

/** Whether the last server of a data directory runs, or has ended otherwise than by a stop. Errors: the system's. */
export async function isInProduction(pgdata: string): Promise<boolean> {
  const state = (await controlBytes(pgdata)).readUInt32LE(AT.state)
  return state !== SHUT_DOWN && !IN_RECOVERY.has(state)
}

/** Where a recovery begins and ends, in bytes, and its timeline as it begins a segment's name. */
export interface RecoveryEnd {
  readonly redo: number
  readonly position: number
  readonly timeline: string
}

/** Up to where a clone of a running server must recover; undefined for other data directories. Errors: the system's. */
export const recoveryEnd = async (pgdata: string): Promise<RecoveryEnd | undefined> =>
  recoveryEndIn(await controlBytes(pgdata))

function recoveryEndIn(control: Buffer): RecoveryEnd | undefined {
  const position = positionAt(control, AT.end)
  if (!IN_RECOVERY.has(control.readUInt32LE(AT.state)) || position === 0) return undefined
  return { redo: positionAt(control, AT.redo), position, timeline: timelineAt(control, AT.endTimeline) }
}

/** The last checkpoint of a server, as its control file tells it. */
export interface Checkpoint {
  readonly timeline: string
  readonly position: number
  /** Where recovery from it begins. */
  readonly redo: number
  readonly fullPageWrites: boolean
}

export const lastCheckpoint = (control: Buffer): Checkpoint => ({
  timeline: timelineAt(control, AT.timeline),
  position: positionAt(control, AT.checkpoint),
  redo: positionAt(control, AT.redo),
  fullPageWrites: control.readUInt8(AT.fullPageWrites) === 1,
})

/** The WAL that a stopped data directory needs to start: its first and, after a clean shutdown, its last segment. */
export function neededWal(control: Buffer): { readonly first: string; readonly last: string | undefined } {
  const { timeline, redo, position } = lastCheckpoint(control)
  // The checkpoint record ends the WAL and is shorter than this. Later segments are old ones kept for recycling.
  const end = position + 512
  const isShutDown = control.readUInt32LE(AT.state) === SHUT_DOWN
  return { first: segmentAt(timeline, redo), last: isShutDown ? segmentAt(timeline, end) : undefined }
}

/**
 * The control file of a copy of a running server, from which recovery is to reach this position, as one from a standby
 * (Postgres manual, "Making a Base Backup Using the Low Level API"; xlogrecovery.c). As `in_recovery` in clone.pl.
 * Errors: its checksum, which is at a place that differs by version, is not found.
 */
export function recoveringTo(control: Buffer, position: number): Buffer {
  const place = CHECKSUM_PLACES.find((at) => control.readUInt32LE(at) === crc32c(control.subarray(0, at)))
  if (place === undefined) throw new Error('pg_control has no checksum of its content')
  const copy = Buffer.from(control)
  copy.writeUInt32LE(SHUT_DOWN_IN_RECOVERY, AT.state)
  copy.writeBigUInt64LE(BigInt(position), AT.end)
  copy.writeUInt32LE(control.readUInt32LE(AT.timeline), AT.endTimeline)
  copy.writeUInt32LE(crc32c(copy.subarray(0, place)), place)
  return copy
}

const CHECKSUM_PLACES = Array.from({ length: 73 }, (_, index) => 4 * (48 + index))

/** CRC-32C (RFC 3720, section 12.1), bit by bit: of a few hundred bytes. */
function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  }
  return ~crc >>> 0
}

/** The bytes of the control file of a data directory. Errors: the system's; it is no file, or of another size. */
export async function controlBytes(pgdata: string): Promise<Buffer> {
  const bytes = await readSmallFile(join(pgdata, 'global/pg_control'), CONTROL_FILE_BYTES)
  if (bytes?.length === CONTROL_FILE_BYTES) return bytes
  throw new Error(`pg_control of ${pgdata} is ${bytes ? 'cut short' : 'not there'}`)
}

/** More than a server writes in its life. Code in a compute can write any position there. */
const MAX_POSITION = 2 ** 53

function positionAt(control: Buffer, offset: number): number {
  const position = control.readBigUInt64LE(offset)
  if (position > MAX_POSITION) throw new Error(`pg_control names the position ${position}, which is beyond any WAL`)
  return Number(position)
}

const timelineAt = (control: Buffer, offset: number): string =>
  control.readUInt32LE(offset).toString(16).toUpperCase().padStart(8, '0')
