import { listDueSchedules } from '../catalog/snapshot_schedule.ts'
import { takeScheduled } from '../commands/snapshot_schedule.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 10_000

/** Takes the snapshots of schedules that are due. */
export function startSnapshotLoop(context: WorkerContext): Loop {
  const { catalog, log } = context
  const take = async (): Promise<void> => {
    // Each by itself: a failure holds up no other.
    for (const due of await listDueSchedules(catalog))
      await takeScheduled(context, due).catch((error: unknown) =>
        log.warn({ err: error, branch: due.branch_id }, 'could not take a scheduled snapshot'),
      )
  }
  return startPeriodic(EVERY_MS, take, (error) => log.warn({ err: error }, 'could not list schedules of snapshots'))
}
