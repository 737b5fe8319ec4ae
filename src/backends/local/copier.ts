/**
 * The program that fills a new branch's data directory, run apart so that a copy of hours outlives whoever asked for it. It holds the
 * branch's server.lock and, while its parent rests, a share of the parent's. It ends with a data directory in place (`pgdata`, made
 * complete under another name first) or with `copy.error`; killed, it leaves neither and the copy begins anew.
 */
import { closeSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { messageOf } from '../../errors.ts'
import { type Source, copyOne, copyTree, makeDirectory, openBelow, openDirectory, openPath } from './copy_tree.ts'
import { isLeftOut, isWalSegment, neededWal } from './data_directory.ts'
import { syncDirectory, syncFilesystem } from './durable.ts'
import type { Owner } from './layout.ts'

/** What the copier is told, as JSON on its standard input, since the password may not be seen in a list of processes. */
export interface CopyPlan {
  /** The new branch's directory. */
  readonly home: string
  /** The directory that holds the `pgdata` to be copied. */
  readonly from: string
  readonly owner?: Owner | undefined
  /** How to reach the parent if it runs; absent for a template. */
  readonly parent?: { readonly socketDir: string; readonly adminPassword: string } | undefined
}

async function main(): Promise<void> {
  const plan = JSON.parse(readFileSync(0, 'utf8')) as CopyPlan
  try {
    await copy(plan, process.argv.at(-1) === 'running')
  } catch (error) {
    console.error(error)
    writeFileSync(join(plan.home, 'copy.error'), messageOf(error))
    process.exitCode = 1
  }
  rmSync(join(plan.home, 'copier'), { force: true })
  rmSync(join(plan.from, 'copies', basename(plan.home)), { force: true })
}

async function copy(plan: CopyPlan, running: boolean): Promise<void> {
  const making = join(plan.home, 'pgdata.making')
  rmSync(making, { recursive: true, force: true })
  makeDirectory(making, plan.owner)
  const source = openDirectory(join(plan.from, 'pgdata'))
  refuseTablespaces(source)
  if (!running) copyAtRest(source, making, plan.owner)
  else if (plan.parent) await (await import('./copy_running.ts')).copyRunning(source, making, plan.owner, plan.parent)
  closeSync(source.file)
  await syncFilesystem(making)
  renameSync(making, join(plan.home, 'pgdata'))
  await syncDirectory(plan.home)
}

function copyAtRest(source: Source, target: string, owner: Owner | undefined): void {
  copyTree(source, target, owner, isLeftOut)
  const wal = openBelow(source, 'pg_wal', 0)
  if (!wal) throw new Error(`${source.path} has no pg_wal`)
  const segments = readdirSync(openPath(wal)).filter(isWalSegment)
  const segmentBytes = statSync(join(openPath(wal), segments[0] ?? '')).size
  const needed = neededWal(readFileSync(join(target, 'global/pg_control')), segmentBytes)
  for (const name of segments) {
    if (name >= needed.first && name <= (needed.last ?? name)) copyOne(wal, name, join(target, 'pg_wal', name), owner)
  }
  closeSync(wal.file)
}

function refuseTablespaces(source: Source): void {
  const tablespaces = openBelow(source, 'pg_tblspc', 0)
  const names = tablespaces ? readdirSync(openPath(tablespaces)) : []
  if (tablespaces) closeSync(tablespaces.file)
  if (names.length > 0) throw new Error('The parent has tablespaces of its own: a branch cannot be made of it. Drop them first.')
}

await main()
