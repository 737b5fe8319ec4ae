import { closeSync, lchownSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { type Source, copyOne, copyTree, openBelow, openPath } from './copy_tree.ts'
import { isLeftOut, isWalSegment } from './data_directory.ts'
import type { Owner } from './layout.ts'
import { readPostmasterFile } from './postmaster_file.ts'

const CONTROL_FILE = 'global/pg_control'

/**
 * Copies the data directory of a server that runs, in the order of the manual's "Making a Base Backup Using the Low Level API":
 * start the backup, copy all but the write-ahead log, stop it, copy the log from its start on, add the label.
 * Without the label the copy would start, look right, and silently be wrong.
 */
export async function copyRunning(
  source: Source,
  target: string,
  owner: Owner | undefined,
  parent: { socketDir: string; adminPassword: string },
): Promise<void> {
  const session = new pg.Client({
    host: parent.socketDir,
    port: readPostmasterFile(source.path)?.port ?? 0,
    user: 'neap_admin',
    password: parent.adminPassword,
    database: 'neap',
    application_name: 'neap: branch',
    options: '-c search_path=pg_catalog -c statement_timeout=0 -c idle_session_timeout=0',
  })
  // A session that is lost while files are copied shows at its next query.
  session.on('error', () => undefined)
  await session.connect()
  try {
    // The slot keeps the log from the backup's start on until it has been copied; it goes with the session.
    await session.query('SELECT pg_create_physical_replication_slot($1, true, true)', [`neap_branch_${process.pid}`])
    const started = await session.query<{ lsn: string }>("SELECT pg_backup_start('neap', true) AS lsn")
    copyTree(source, target, owner, (path) => isLeftOut(path) || path === CONTROL_FILE)
    writeOwned(join(target, CONTROL_FILE), readControlFile(source), owner)
    const stopped = await session.query<{ lsn: string; label: string }>(
      'SELECT lsn, labelfile AS label FROM pg_backup_stop(wait_for_archive => false)',
    )
    const { lsn, label } = onlyRow(stopped.rows)
    const segments = await session.query<{ first: string; last: string }>(
      'SELECT pg_walfile_name($1) AS first, pg_walfile_name($2) AS last',
      [onlyRow(started.rows).lsn, lsn],
    )
    copyLog(source, target, owner, onlyRow(segments.rows))
    writeOwned(join(target, 'backup_label'), Buffer.from(label), owner)
  } finally {
    await session.end().catch(() => undefined)
  }
}

function copyLog(source: Source, target: string, owner: Owner | undefined, range: { first: string; last: string }): void {
  const log = openBelow(source, 'pg_wal', 0)
  if (!log) throw new Error('the parent has no pg_wal')
  const wanted = readdirSync(openPath(log)).filter((name) => isWalSegment(name) && name >= range.first && name <= range.last)
  if (!wanted.includes(range.first) || !wanted.includes(range.last)) throw new Error('the parent removed log that the copy needs')
  for (const name of wanted) copyOne(log, name, join(target, 'pg_wal', name), owner)
  closeSync(log.file)
}

/** The control file is rewritten in place: what two reads agree on was not torn. */
function readControlFile(source: Source): Buffer {
  const directory = openBelow(source, 'global', 0)
  const control = directory && openBelow(directory, 'pg_control', 0)
  if (!directory || !control) throw new Error(`the parent has no ${CONTROL_FILE}`)
  try {
    for (let before = readFileSync(openPath(control)); ; ) {
      const now = readFileSync(openPath(control))
      if (now.equals(before)) return now
      before = now
    }
  } finally {
    closeSync(control.file)
    closeSync(directory.file)
  }
}

function writeOwned(path: string, content: Buffer, owner: Owner | undefined): void {
  writeFileSync(path, content, { mode: 0o600 })
  if (owner) lchownSync(path, owner.uid, owner.gid)
}

function onlyRow<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined) throw new Error('the server answered no row')
  return row
}
