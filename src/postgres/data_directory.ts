/**
 * Rules about the files inside a Postgres data directory. Sources: the manual's "Database File Layout" and "Making a
 * Base Backup Using the Low Level API".
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
