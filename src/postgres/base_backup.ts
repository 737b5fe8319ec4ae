import type pg from 'pg'

/** A finished base backup: the WAL that it needs, and its label. */
export interface BaseBackup {
  /** Names of the first and the last segment. */
  readonly first: string
  readonly last: string
  /** To be written as `backup_label`: without it the copy would start, look right, and be silently corrupt. */
  readonly label: string
  readonly hasSubscriptions: boolean
}

/**
 * Makes a base backup in the order of the manual's "Making a Base Backup Using the Low Level API": starts it, lets
 * `copyData` copy all but the WAL, stops it. The WAL from its start on is retained until the session ends, by a
 * temporary slot of this name.
 */
export async function baseBackup(session: pg.Client, slot: string, copyData: () => Promise<void>): Promise<BaseBackup> {
  await session.query('SELECT pg_create_physical_replication_slot($1, true, true)', [slot])
  const started = await session.query<{ lsn: string }>("SELECT pg_backup_start('neap', true) AS lsn")
  await copyData()
  const stopped = await session.query<{ lsn: string; label: string }>(
    'SELECT lsn, labelfile AS label FROM pg_backup_stop(wait_for_archive => false)',
  )
  const { lsn, label } = onlyRow(stopped.rows)
  const segments = await session.query<{ first: string; last: string }>(
    'SELECT pg_walfile_name($1) AS first, pg_walfile_name($2) AS last',
    [onlyRow(started.rows).lsn, lsn],
  )
  const found = await session.query<{ any: boolean }>('SELECT EXISTS (SELECT FROM pg_subscription) AS any')
  return { ...onlyRow(segments.rows), label, hasSubscriptions: onlyRow(found.rows).any }
}

function onlyRow<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined) throw new Error('the server answered no row')
  return row
}
