import { lockProject } from '../catalog/project.ts'
import { listGrownOn, listWronglyRefusing } from '../catalog/size_limit.ts'
import type { WorkerContext } from '../context.ts'
import { decideAndApply } from '../operations/refuse_writes.ts'
import { type Loop, startPeriodic } from './periodic.ts'
import { suspendActive } from './suspend_active.ts'

/** A loop of its own: it waits for no measurement, since a disk may fill meanwhile. */
const EVERY_MS = 5_000

/**
 * Lets computes of this host refuse writes whose branches are over their limit, or all of them while its disk is
 * almost full. A tenant can override that by BEGIN READ WRITE, as to delete; one whose branch grows on is suspended.
 */
export function startSizeLimitLoop(context: WorkerContext): Loop {
  const { catalog, hostId, log } = context
  const look = async (): Promise<void> => {
    for (const { id, account_id, project_id } of await listWronglyRefusing(catalog, { hostId }))
      await catalog
        .transaction(async (tx) => {
          if (!(await lockProject(tx, account_id, project_id))) return
          const operation = await decideAndApply(tx, id)
          log.info({ endpoint: id, project: project_id, operation: operation?.id }, 'writes are refused, or no longer')
        })
        .catch((error: unknown) => log.warn({ err: error, endpoint: id }, 'could not refuse writes, or accept them'))
    for (const endpoint of await listGrownOn(catalog, hostId))
      await suspendActive(context, endpoint, 'its branch grows on while writes are refused')
  }
  return startPeriodic(EVERY_MS, look, (error) => log.warn({ err: error }, 'could not limit sizes'))
}
