/**
 * The program that fills a new branch's data directory, run apart so that a copy of hours outlives whoever asked for it. It holds the
 * branch's server.lock and, while its parent rests, a share of the parent's. It ends with a data directory in place (`pgdata`, made
 * complete under another name first) or with `copy.error`; killed, it leaves neither and the copy begins anew.
 */
import { closeSync, existsSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { messageOf } from '../../errors.ts'
import {
  type Source,
  type CopyTarget,
  copyOne,
  copyTree,
  makeDirectory,
  openBelow,
  openDirectory,
  openPath,
} from './copy_tree.ts'
import { isLeftOut, isWalSegment, neededWal } from './data_directory.ts'
import { syncDirectory, syncFilesystem } from './durable.ts'
import type { Owner } from './layout.ts'
import { inheritPassword } from './store_password.ts'
import { isMarkedSubscribed, markSubscribed, mayHoldSubscriptions } from './subscription_mark.ts'

/** What the copier is told, as JSON on its standard input, since the password may not be seen in a list of processes. */
export interface CopyPlan {
  /** The new branch's directory. */
  readonly home: string
  /** The directory that holds the `pgdata` to be copied. */
  readonly from: string
  readonly owner?: Owner | undefined
  /** How to reach the parent if it runs; absent for a template. */
  readonly parent?: { readonly socketDir: string; readonly passwords: readonly string[] } | undefined
}

async function main(): Promise<void> {
  const plan = JSON.parse(readFileSync(0, 'utf8')) as CopyPlan
  try {
    await copy(plan, process.argv.at(-1) === 'running')
  } catch (error) {
    console.error(error)
    rmSync(join(plan.home, MAKING), { recursive: true, force: true })
    process.exitCode = 1
    // A parent that went to rest, or is only starting, is no failure: without a result the copy begins anew.
    if (!isSessionLost(error)) tell(plan.home, error)
  }
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
    // Where not even that finds room the exit code says why, as effect.pl's does.
    process.exitCode = 128 - ((failure as NodeJS.ErrnoException).errno ?? 0)
  }
}

async function copy({ home, from, owner, parent }: CopyPlan, running: boolean): Promise<void> {
  const making = join(home, MAKING)
  rmSync(making, { recursive: true, force: true })
  makeDirectory(making, owner)
  const source = openDirectory(join(from, 'pgdata'))
  const target: CopyTarget = { path: making, owner, reflink: true }
  refuseTablespaces(source)
  const subscribed =
    running && parent
      ? await (await import('./copy_running.ts')).copyRunning(source, target, parent)
      : copyAtRest(source, target)
  closeSync(source.file)
  if (parent && (subscribed || isMarkedSubscribed(from))) markSubscribed(home)
  await inheritPassword(from, home)
  await syncFilesystem(making)
  renameSync(making, join(home, 'pgdata'))
  await syncDirectory(home)
}

/** Answers whether what was copied may hold subscriptions. */
function copyAtRest(source: Source, target: CopyTarget): boolean {
  copyTree(source, target, isLeftOut)
  const wal = openBelow(source, 'pg_wal')
  if (!wal) throw new Error(`${source.path} has no pg_wal`)
  const segments = readdirSync(openPath(wal)).filter(isWalSegment)
  const segmentBytes = statSync(join(openPath(wal), segments[0] ?? '')).size
  const needed = neededWal(readFileSync(join(target.path, 'global/pg_control')), segmentBytes)
  // A parent that was itself cloned from a running server and never started: its label says where its log begins, and all is needed.
  const isBackup = existsSync(join(target.path, 'backup_label'))
  for (const name of segments) {
    if (isBackup || (name >= needed.first && name <= (needed.last ?? name)))
      copyOne(wal, name, target, `pg_wal/${name}`)
  }
  closeSync(wal.file)
  // After a crash some may stand in the log only. What never ran has its parent's, of which a mark tells.
  const crashed = needed.last === undefined && !isBackup
  return crashed || mayHoldSubscriptions(target.path)
}

/**
 * Of sockets, and of SQLSTATE class 57: the server is shutting down, crashed, or not yet there. One that starts for the first time has yet to
 * be given its own password (28P01).
 */
const LOST = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOENT', '57P01', '57P02', '57P03', '28P01'])

function isSessionLost(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return LOST.has(code) || messageOf(error).startsWith('Connection terminated')
}

function refuseTablespaces(source: Source): void {
  const tablespaces = openBelow(source, 'pg_tblspc')
  const names = tablespaces ? readdirSync(openPath(tablespaces)) : []
  if (tablespaces) closeSync(tablespaces.file)
  if (names.length > 0)
    throw new Error('The parent has tablespaces of its own: a branch cannot be made of it. Drop them first.')
}

await main()
