import { closeSync, fchownSync, openSync, readFileSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { baseBackup } from '../postgres/base_backup.ts'
import { ADMIN, ownSession } from '../postgres/own_session.ts'
import { type Source, type CopyTarget, copyOne, copyTree, openBelow, openPath } from './copy_tree.ts'
import { isLeftOut, isWalSegment } from '../postgres/data_directory.ts'
import { SERVER_PORT } from '../host/layout.ts'

const CONTROL_FILE = 'global/pg_control'

/**
 * Copies the data directory of a running server by a base backup: all but the WAL while it runs, then the WAL of the
 * backup, then the label. Returns whether the parent has subscriptions.
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
    const backup = await baseBackup(session, `neap_branch_${process.pid}`, () => {
      copyTree(source, target, (path) => isLeftOut(path) || path === CONTROL_FILE)
      writeOwned(target, CONTROL_FILE, readControlFile(source))
    })
    copyLog(source, target, backup)
    writeOwned(target, 'backup_label', Buffer.from(backup.label))
    return backup.hasSubscriptions
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
