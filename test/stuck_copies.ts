import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { catalogQuery, superuser } from './admin.ts'
import { copierOf } from './local_host.ts'
import type { Neap } from './neap.ts'
import { until } from './processes.ts'
import { computeOf, type Place } from './project.ts'

/** A branch whose data is being copied by a process that stands still. */
export interface StuckCopy {
  readonly branch_id: string
  readonly operations: readonly { readonly id: string; readonly project_id: string }[]
  /** Lets the process go on, if it still lives. */
  release(): void
}

const commandOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, 'utf8')

/** Requests a branch and stops the process that copies into it. */
export async function stuckCopy(
  neap: Neap,
  { project_id, branch_id }: Place,
  endpoints: { type: 'read_write' }[] = [],
): Promise<StuckCopy> {
  // A frozen worker leaves time to start watching the directory of the copy.
  const worker = neap.part('worker') ?? 0
  process.kill(worker, 'SIGSTOP')
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id },
    body: { branch: { parent_id: branch_id }, endpoints },
  })
  const home = join(neap.ready.data_dir, 'branches', branch.id)
  mkdirSync(home, { mode: 0o711 })
  const copier = copierOf(home)
  process.kill(worker, 'SIGCONT')
  const pid = await copier
  // A perl process takes the lock, then execs the copier.
  await until('the copier', () => !commandOf(pid).startsWith('perl'))
  process.kill(pid, 'SIGSTOP')
  return { branch_id: branch.id, operations, release: () => signal(pid, 'SIGCONT') }
}

/**
 * Freezes the checkpointer of a running compute that has written more WAL than a copy takes: copies of its branch wait
 * for a checkpoint. Returns a function that thaws it.
 */
export async function freezeCheckpointer(neap: Neap, place: Place): Promise<() => void> {
  // Clients are let in before the catalog has it.
  const { pid } = await until('the compute', () => computeOf(neap, place))
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  const checkpointer = children.find((child) => commandOf(child).includes('checkpointer')) ?? 0
  if (checkpointer === 0) throw new Error(`the compute ${pid} has no checkpointer among ${children.join(' ')}`)
  const admin = await superuser(neap, place)
  await admin.query('select pg_switch_wal()')
  await admin.end()
  process.kill(checkpointer, 'SIGSTOP')
  return () => signal(checkpointer, 'SIGCONT')
}

/** Waits until so many branches of a project are being copied. */
export async function awaitCopies(neap: Neap, { project_id }: Place, count: number): Promise<void> {
  await until(`${count} copies`, async () => {
    const waiting = await catalogQuery(
      neap,
      `select from operation where project_id = $1 and action = 'create_branch' and wait_reason is not null`,
      [project_id],
    )
    return waiting.length >= count
  })
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}
