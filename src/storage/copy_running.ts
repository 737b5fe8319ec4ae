import { closeSync, fchownSync, fstatSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { readControlFile } from '../postgres/control_file.ts'
import { isLeftOut } from '../postgres/data_directory.ts'
import type { RunningParent } from './parent_session.ts'
import { type CopyTarget, copyTree, openBelow, type Source } from './copy_tree.ts'
import { copyWal } from './copy_wal.ts'
import { joinBackup } from './shared_backup.ts'

const CONTROL_FILE = 'global/pg_control'
/** Postgres writes it some times per second at most. */
const MAX_READS = 1_000

/**
 * Copies the data directory of a running server by a base backup, which it shares with copies that begin at about the
 * same time: all but the WAL while it runs, then the WAL of the backup, then the label. Returns whether the parent has
 * subscriptions.
 * @param home the parent's directory
 */
export async function copyRunning(
  source: Source,
  target: CopyTarget,
  home: string,
  parent: RunningParent,
): Promise<boolean> {
  const member = await joinBackup(home, parent)
  try {
    await copyTree(source, target, (path) => isLeftOut(path) || path === CONTROL_FILE)
    writeOwned(target, CONTROL_FILE, readWholeControlFile(source))
    const backup = await member.copied()
    copyWal(source, target, backup)
    writeOwned(target, 'backup_label', Buffer.from(backup.label))
    return backup.hasSubscriptions
  } finally {
    await member.end()
  }
}

/** Postgres rewrites the control file in place: two equal reads in a row show that neither is torn. */
function readWholeControlFile(source: Source): Buffer {
  const directory = openBelow(source, 'global')
  const control = directory && openBelow(directory, 'pg_control')
  if (!directory || !control) throw new Error(`the parent has no ${CONTROL_FILE}`)
  try {
    if (!fstatSync(control.file).isFile()) throw new Error(`the parent's ${CONTROL_FILE} is not a file`)
    let before = readControlFile(control.file)
    for (let reads = 1; reads < MAX_READS; reads++) {
      const now = readControlFile(control.file)
      if (now.equals(before)) return now
      before = now
    }
    throw new Error(`the parent's ${CONTROL_FILE} never stays the same`)
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
