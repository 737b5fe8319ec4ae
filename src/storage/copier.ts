/**
 * The program that fills a new branch's data directory, a separate process so that a copy of hours outlives its caller.
 * It holds the branch's server.lock and, while no server runs on the parent, a shared lock on the parent's. It ends
 * with the data directory in place (`pgdata`, completed under another name first) or with `copy.error`. If killed it
 * leaves neither, and the copy starts over.
 */
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { messageOf } from '../errors.ts'
import {
  type Source,
  type CopyTarget,
  copyTree,
  makeDirectory,
  openBelow,
  openDirectory,
  openPath,
} from './copy_tree.ts'
import { copyHistory, copySegment } from './copy_wal.ts'
import { neededWal, readControlFile } from '../postgres/control_file.ts'
import { isLeftOut, isTimelineHistory, isWalSegment, mayHoldSubscriptions } from '../postgres/data_directory.ts'
import { syncDirectory } from '../durable_file.ts'
import { syncFilesystem } from '../host/durable.ts'
import { runEffectHere } from '../host/effect.ts'
import type { Owner } from '../host/layout.ts'
import { isSessionLost, type RunningParent } from './parent_session.ts'
import { bytesBelow, COPY_PROGRESS_FILE, meterCopy } from './copy_progress.ts'
import { requireCopyRoom } from './copy_room.ts'
import { inheritPassword } from './password_note.ts'
import { inheritRecovery, noteRecovery, placeWal, type ReplayPlan, signalRecovery } from './replay.ts'
import { takeSpare } from './spare.ts'
import { isMarkedSubscribed, markSubscribed } from './subscription_mark.ts'

/** The copier's input, as JSON on its standard input, since a list of processes must not show the password. */
export interface CopyPlan {
  /** The new branch's directory. */
  readonly home: string
  /** The directory that holds the `pgdata` to be copied. */
  readonly from: string
  readonly owner?: Owner | undefined
  /** How to reach the parent if it runs; absent for a template, and for a base. */
  readonly parent?: RunningParent | undefined
  /** The WAL that its first start is to replay; absent for a copy of the source as it is. */
  readonly replay?: ReplayPlan | undefined
  /** Makes a spare of the source (spare.ts). */
  readonly isSpare?: boolean
  /** Makes a base: a restore from it is to replay little WAL. */
  readonly isBase?: boolean
}

async function main(): Promise<void> {
  const plan = JSON.parse(readFileSync(0, 'utf8')) as CopyPlan
  try {
    await copy(plan, process.argv.at(-1) === 'running')
  } catch (error) {
    console.error(error)
    rmSync(join(plan.home, MAKING), { recursive: true, force: true })
    process.exitCode = 1
    // Files of a base that is being removed fail in many ways.
    if (plan.replay && isRemoved(plan.from)) tell(plan.home, new Error(REMOVED))
    // A parent that was suspended, or is still starting, is no failure: without a result the copy starts over.
    else if (!isSessionLost(error)) tell(plan.home, error)
  }
  rmSync(join(plan.home, COPY_PROGRESS_FILE), { force: true })
  rmSync(join(plan.home, 'copier'), { force: true })
  rmSync(join(plan.from, 'copies', basename(plan.home)), { force: true })
}

const MAKING = 'pgdata.making'

function tell(home: string, error: unknown): void {
  const file = join(home, 'copy.error')
  try {
    writeFileSync(file, messageOf(error))
  } catch (failure) {
    rmSync(file, { force: true })
    // When the disk has no space for it either, the exit code carries the errno, as in effect.pl.
    process.exitCode = 128 - ((failure as NodeJS.ErrnoException).errno ?? 0)
  }
}

async function copy({ home, from, owner, parent, replay }: CopyPlan, running: boolean): Promise<void> {
  const making = join(home, MAKING)
  rmSync(making, { recursive: true, force: true })
  const isTaken = replay !== undefined && (takeSpare(from, making) || (await takeSnapshot(from, making, owner)))
  if (!isTaken) makeDirectory(making, owner)
  const source = openDirectory(join(from, 'pgdata'))
  const meter = meterCopy(home, () => bytesBelow(source, isLeftOut))
  refuseTablespaces(source)
  const room = await requireCopyRoom(source, making, isLeftOut)
  const target: CopyTarget = { path: making, owner, reflink: true, copied: meter.add, room, linked: new Set() }
  let subscribed = false
  if (running && parent) subscribed = await (await import('./copy_running.ts')).copyRunning(source, target, parent)
  else if (!isTaken) subscribed = await copyAtRest(source, target, await inheritRecovery(from, home))
  if (replay) {
    await noteRecovery(home, await placeWal(replay, target))
    // Files that vanish are left out of a copy.
    if (isRemoved(from)) throw new Error(REMOVED)
  }
  // Not before: the meter may ask for its size.
  closeSync(source.file)
  if (parent && (subscribed || isMarkedSubscribed(from))) markSubscribed(home)
  await inheritPassword(from, home)
  meter.sync()
  await syncFilesystem(making)
  renameSync(making, join(home, 'pgdata'))
  await syncDirectory(home)
}

const REMOVED = 'The base of this moment was removed.'

const isRemoved = (base: string): boolean => !existsSync(join(base, 'pgdata'))

/** The inode of a subvolume of Btrfs. */
const SUBVOLUME_INODE = 256

/** Makes a snapshot of a base where data directories are subvolumes (clone.pl). Returns false elsewhere. */
async function takeSnapshot(base: string, place: string, owner: Owner | undefined): Promise<boolean> {
  if (statSync(join(base, 'pgdata')).ino !== SUBVOLUME_INODE) return false
  const as = owner ? [String(owner.uid), String(owner.gid)] : ['-', '-']
  return (await runEffectHere(['snapshot', base, place, ...as], {})) === 'done'
}

/**
 * @param recovers whether the first start of the source is to recover it, for which all of its WAL is needed
 * @returns whether the copy may hold subscriptions
 */
async function copyAtRest(source: Source, target: CopyTarget, recovers: boolean): Promise<boolean> {
  await copyTree(source, target, isLeftOut)
  const wal = openBelow(source, 'pg_wal')
  if (!wal) throw new Error(`${source.path} has no pg_wal`)
  const names = readdirSync(openPath(wal))
  const segments = names.filter(isWalSegment)
  const control = openSync(join(target.path, 'global/pg_control'), 'r')
  const needed = neededWal(readControlFile(control))
  closeSync(control)
  // A parent that was itself cloned from a running server and never started: its label names the start of its WAL, and
  // all of it is needed.
  const isBackup = recovers || existsSync(join(target.path, 'backup_label'))
  if (recovers) signalRecovery(target)
  const neededSegments = segments.filter((name) => isBackup || (name >= needed.first && name <= (needed.last ?? name)))
  for (const name of names.filter(isTimelineHistory)) copyHistory(wal, name, target)
  for (const name of neededSegments) copySegment(wal, name, target)
  closeSync(wal.file)
  // After a crash, subscriptions may exist in the WAL only. A parent that never ran has its own parent's; its mark
  // records them.
  const crashed = needed.last === undefined && !isBackup
  return crashed || mayHoldSubscriptions(target.path)
}

function refuseTablespaces(source: Source): void {
  const tablespaces = openBelow(source, 'pg_tblspc')
  const names = tablespaces ? readdirSync(openPath(tablespaces)) : []
  if (tablespaces) closeSync(tablespaces.file)
  if (names.length > 0)
    throw new Error('The parent has tablespaces of its own: a branch cannot be made of it. Drop them first.')
}

await main()
