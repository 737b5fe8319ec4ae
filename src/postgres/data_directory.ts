/**
 * Rules about the files inside a Postgres data directory. Sources: the manual's "Database File Layout" and "Making a
 * Base Backup Using the Low Level API"; pg_control.h for the control file, whose first fields are the same in Postgres
 * 15 to 18.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'

/** Directories that are empty in a clone: their content belongs to the server that wrote it. */
const EMPTIED = /^(pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans|pg_wal)\/./

/** Files that a clone omits: those of a running server or a backup, temporary ones, and ones rebuilt at each start. */
const LEFT_OUT =
  /(^|\/)(pgsql_tmp[^/]*|pg_internal\.init[^/]*|t\d+_\d+[^/]*)(\/|$)|^(postmaster\.(pid|opts)|backup_label\.old|tablespace_map\.old|backup_manifest|current_logfiles(\.tmp)?|standby\.signal|recovery\.signal)$/

/** The pattern of both. */
export const LEFT_OUT_OF_CLONES = `${EMPTIED.source}|${LEFT_OUT.source}`

/** Whether a path of a data directory is not copied into a clone. */
export function isLeftOut(path: string): boolean {
  return EMPTIED.test(path) || LEFT_OUT.test(path)
}

const SHUT_DOWN = 1

/** The WAL that a stopped data directory needs to start: its first and, after a clean shutdown, its last segment. */
export function neededWal(control: Buffer, segmentBytes: number): { first: string; last: string | undefined } {
  const state = control.readUInt32LE(16)
  const checkpoint = control.readBigUInt64LE(32)
  const redo = control.readBigUInt64LE(40)
  const timeline = control.readUInt32LE(48)
  const name = (lsn: bigint) => walFileName(timeline, lsn, BigInt(segmentBytes))
  // The checkpoint record ends the WAL and is shorter than this. Later segments are old ones kept for recycling.
  const end = checkpoint + 512n
  return { first: name(redo), last: state === SHUT_DOWN ? name(end) : undefined }
}

function walFileName(timeline: number, lsn: bigint, segmentBytes: bigint): string {
  const segment = lsn / segmentBytes
  const perId = 2n ** 32n / segmentBytes
  return [BigInt(timeline), segment / perId, segment % perId]
    .map((part) => part.toString(16).toUpperCase().padStart(8, '0'))
    .join('')
}

export function isWalSegment(name: string): boolean {
  return /^[0-9A-F]{24}$/.test(name)
}

/** Whether it is the name of the history of a timeline (Postgres manual, "Timelines"). */
export const isTimelineHistory = (name: string): boolean => /^[0-9A-F]{8}\.history$/.test(name)

/** The file of pg_subscription (pg_subscription.h), empty while there is none; a VACUUM FULL, for example, moves it. */
const SUBSCRIPTIONS = 'global/6100'

/** Whether a data directory that was shut down cleanly may hold subscriptions. */
export function mayHoldSubscriptions(pgdata: string): boolean {
  return statSync(join(pgdata, SUBSCRIPTIONS), { throwIfNoEntry: false })?.size !== 0
}
