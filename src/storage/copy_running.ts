import { closeSync, fchownSync, openSync, readFileSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { ADMIN, ownSession } from '../postgres/own_session.ts'
import { type Source, type CopyTarget, copyOne, copyTree, openBelow, openPath } from './copy_tree.ts'
import { isLeftOut, isWalSegment } from '../postgres/data_directory.ts'
import { SERVER_PORT } from '../compute/process/server.ts'

const CONTROL_FILE = 'global/pg_control'

/**
 * Copies the data directory of a running server, in the order of the manual's "Making a Base Backup Using the Low Level
 * API": start the backup, copy all but the WAL, stop the backup, copy the WAL from its start on, add the label.
 * Without the label the copy would start, look right, and be silently corrupt. Returns whether the parent has
 * subscriptions.
 */
export async function copyRunning(
  source: Source,
  target: CopyTarget,
  parent: { socketDir: string; passwords: readonly string[] },
): Promise<boolean> {
  const session = await ownSession({
    host: parent.socketDir,
    port: SERVER_PORT,
    user: ADMIN,
    passwords: parent.passwords,
    name: 'neap: branch',
  })
  try {
    // The slot retains WAL from the backup's start until it is copied. It is temporary and ends with the session.
    await session.query('SELECT pg_create_physical_replication_slot($1, true, true)', [`neap_branch_${process.pid}`])
    const started = await session.query<{ lsn: string }>("SELECT pg_backup_start('neap', true) AS lsn")
    copyTree(source, target, (path) => isLeftOut(path) || path === CONTROL_FILE)
    writeOwned(target, CONTROL_FILE, readControlFile(source))
    const stopped = await session.query<{ lsn: string; label: string }>(
      'SELECT lsn, labelfile AS label FROM pg_backup_stop(wait_for_archive => false)',
    )
    const { lsn, label } = onlyRow(stopped.rows)
    const segments = await session.query<{ first: string; last: string }>(
      'SELECT pg_walfile_name($1) AS first, pg_walfile_name($2) AS last',
      [onlyRow(started.rows).lsn, lsn],
    )
    copyLog(source, target, onlyRow(segments.rows))
    writeOwned(target, 'backup_label', Buffer.from(label))
    const subscribed = await session.query<{ any: boolean }>('SELECT EXISTS (SELECT FROM pg_subscription) AS any')
    return onlyRow(subscribed.rows).any
  } finally {
    await session.end().catch(() => undefined)
  }
}

function copyLog(source: Source, target: CopyTarget, { first, last }: { first: string; last: string }): void {
  const log = openBelow(source, 'pg_wal')
  if (!log) throw new Error('the parent has no pg_wal')
  const wanted = readdirSync(openPath(log)).filter((name) => isWalSegment(name) && name >= first && name <= last)
  if (!wanted.includes(first) || !wanted.includes(last)) throw new Error('the parent removed log that the copy needs')
  for (const name of wanted) copyOne(log, name, target, `pg_wal/${name}`)
  closeSync(log.file)
}

/** Postgres rewrites the control file in place: two equal reads in a row show that neither is torn. */
function readControlFile(source: Source): Buffer {
  const directory = openBelow(source, 'global')
  const control = directory && openBelow(directory, 'pg_control')
  if (!directory || !control) throw new Error(`the parent has no ${CONTROL_FILE}`)
  try {
    for (let before = readFileSync(openPath(control)); ;) {
      const now = readFileSync(openPath(control))
      if (now.equals(before)) return now
      before = now
    }
  } finally {
    closeSync(control.file)
    closeSync(directory.file)
  }
}

function writeOwned({ path, owner }: CopyTarget, name: string, content: Buffer): void {
  const file = openSync(join(path, name), 'wx', 0o600)
  try {
    if (owner) fchownSync(file, owner.uid, owner.gid)
    if (writeSync(file, content) !== content.length) throw new Error(`${name} could not be written whole`)
  } finally {
    closeSync(file)
  }
}

function onlyRow<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined) throw new Error('the server answered no row')
  return row
}
