import { type Branch, findBranch, isClosed } from '../catalog/branch.ts'
import { isDiskShort } from '../catalog/host.ts'
import { lockProject } from '../catalog/project.ts'
import {
  type DueSchedule,
  findSchedule,
  removeSchedule,
  type ScheduleItem,
  setSchedule,
} from '../catalog/snapshot_schedule.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { nextOf, retentionOf } from './snapshot_times.ts'
import type { CommandContext } from './command.ts'
import { lookAtConfig, noteLook } from './look.ts'
import { type BranchId, lockedProject, requireBranch } from './require.ts'
import { queueSnapshot } from './snapshot.ts'

const timeText = (ms: number): string => new Date(ms).toISOString()

/**
 * Sets when snapshots of a branch are taken by themselves; an empty schedule ends that. Errors: NOT_FOUND, LOCKED,
 * NOT_ALLOWED.
 */
export async function scheduleSnapshots(
  context: CommandContext,
  { project_id, branch_id }: BranchId,
  items: readonly ScheduleItem[],
): Promise<readonly ScheduleItem[]> {
  const { db } = context
  await lockedProject(context, project_id)
  const branch = await requireBranch(context, project_id, branch_id)
  for (const { frequency, day = 1 } of items)
    if (frequency === 'weekly' && day > 7)
      throw new AppError('NOT_ALLOWED', `day is ${day}; of a week it is 1 (Monday) to 7 (Sunday).`)
  if (items.length === 0) await removeSchedule(db, branch.id)
  else await setSchedule(db, branch.id, items, timeText(nextOf(items, Date.now())))
  return items
}

/** When snapshots of a branch are taken; empty: never by themselves. Errors: NOT_FOUND. */
export async function branchSchedule(context: CommandContext, branch: Branch): Promise<readonly ScheduleItem[]> {
  return (await findSchedule(context.db, branch.id))?.items ?? []
}

/**
 * Takes the snapshot of a schedule that is due, once, also when several workers see it. A single one makes up for the
 * times that were missed while no worker ran.
 */
export async function takeScheduled(context: Context, due: DueSchedule): Promise<void> {
  const { catalog, log } = context
  const seen = await findBranch(catalog, due.project_id, due.branch_id)
  const look = seen && (await lookAtConfig(context, catalog, seen))
  await catalog.transaction(async (tx) => {
    const project = await lockProject(tx, due.account_id, due.project_id)
    const branch = project && (await findBranch(tx, project.id, due.branch_id))
    const schedule = branch && (await findSchedule(tx, branch.id))
    const now = Date.now()
    const dueAt = Date.parse(schedule?.next_at ?? '')
    if (!schedule || dueAt > now) return
    await setSchedule(tx, branch.id, schedule.items, timeText(nextOf(schedule.items, now)))
    if (await isDiskShort(tx, branch.id)) {
      log.warn({ branch: branch.id }, 'no scheduled snapshot was taken: the disk is almost full')
      return
    }
    if (isClosed(branch)) {
      log.warn({ branch: branch.id }, 'no scheduled snapshot was taken: the data are not masked')
      return
    }
    if (look) await noteLook(tx, branch, look)
    const kept = retentionOf(schedule.items, dueAt)
    await queueSnapshot(tx, branch, {
      name: `${branch.name} ${timeText(dueAt).slice(0, 16)}Z`,
      expires_at: kept === undefined ? null : timeText(now + kept * 1000),
      is_scheduled: true,
    })
  })
}
