import { keepDiskHistory, renewNotices } from '../catalog/notice.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000

/** Tells, once a minute, how far this host's disk, the sizes of its branches and the quotas of projects are used. */
export function startNoticeLoop({ catalog, hostId, log }: WorkerContext): Loop {
  const look = async (): Promise<void> => {
    await keepDiskHistory(catalog, hostId)
    for (const { name, subject_id, project_id, level, used, most, full_at } of await renewNotices(catalog, hostId))
      log.warn({ limit: name, subject: subject_id, project: project_id, level, used, most, full_at }, 'a limit is near')
  }
  return startPeriodic(EVERY_MS, look, (error) => log.warn({ err: error }, 'could not look how far limits are used'))
}
