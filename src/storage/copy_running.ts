import { closeSync, fchownSync, fstatSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import { backupLabel } from '../postgres/backup_label.ts'
import { type Checkpoint, lastCheckpoint, readControlFile, recoveringTo } from '../postgres/control_file.ts'
import { isLeftOut } from '../postgres/data_directory.ts'
import { endSession } from '../postgres/own_session.ts'
import { lsnPosition, SEGMENT_BYTES, segmentStart, timelineOf } from '../postgres/wal.ts'
import { copyTree, type CopyTarget, openBelow, type Source } from './copy_tree.ts'
import { copyWal } from './copy_wal.ts'
import { endOfWal, parentSession, type RunningParent } from './parent_session.ts'

const CONTROL_FILE = 'global/pg_control'
/** Postgres writes it some times per second at most. */
const MAX_READS = 1_000
/**
 * Of WAL that a copy takes from its parent, whose segments it has whole: its history goes on where that of its parent
 * ends. With more, the parent ends a segment and makes a checkpoint, which serves all copies that follow.
 */
const MAX_WAL_BYTES = 4 * 2 ** 20

/**
 * Copies the data directory of a running server in the order of clone.pl: its control file first, then all other files,
 * then the WAL from the checkpoint of that control file up to an end that the server tells. A copy may take hours, for
 * which a slot retains that WAL. Returns whether the parent has subscriptions.
 */
export async function copyRunning(source: Source, target: CopyTarget, parent: RunningParent): Promise<boolean> {
  const session = await parentSession(parent)
  try {
    const control = await retainedControl(session, source)
    await copyTree(source, target, (path) => isLeftOut(path) || path === CONTROL_FILE)
    const { lsn, subscribed } = await endOfWal(session)
    const end = lsnPosition(lsn) ?? NaN
    const checkpoint = lastCheckpoint(control)
    copyWal(source, target, { timeline: checkpoint.timeline, from: checkpoint.redo, end })
    writeOwned(target, 'backup_label', Buffer.from(backupLabel(checkpoint)))
    writeOwned(target, CONTROL_FILE, recoveringTo(control, end))
    return subscribed
  } finally {
    await endSession(session)
  }
}

/** The control file of a checkpoint since which all WAL is retained, by a slot that lasts as long as the session. */
async function retainedControl(session: pg.Client, source: Source): Promise<Buffer> {
  const { rows } = await session.query<{ retained: string; written: string; file: string }>(
    `select lsn::text as retained, pg_current_wal_lsn()::text as written, pg_walfile_name(pg_current_wal_lsn()) as file
       from pg_create_physical_replication_slot($1, true, true)`,
    [`neap_branch_${process.pid}`],
  )
  const [slot] = rows
  if (!slot) throw new Error('the server answered no row')
  const [retained = NaN, written = NaN] = [slot.retained, slot.written].map(lsnPosition)
  // The slot retains WAL since a checkpoint that may not have ended, and the last one may be from before a restore.
  const isUsable = ({ redo, timeline, fullPageWrites }: Checkpoint) =>
    redo >= retained && timeline === timelineOf(slot.file) && fullPageWrites
  const found = readWholeControlFile(source)
  const last = lastCheckpoint(found)
  if (isUsable(last) && written - segmentStart(last.redo) <= MAX_WAL_BYTES) return found
  await session.query(
    `select pg_switch_wal() where (pg_current_wal_lsn() - '0/0') % ${SEGMENT_BYTES} > ${MAX_WAL_BYTES}`,
  )
  await session.query('checkpoint')
  const next = readWholeControlFile(source)
  if (!isUsable(lastCheckpoint(next))) throw new Error('the parent has no checkpoint from which a copy could recover')
  return next
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
