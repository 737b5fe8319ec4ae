import {
  type DueCheck,
  isBranchTaken,
  nextCheck,
  setNextCheck,
  spreadChecks,
  takeDueChecks,
} from '../catalog/availability.ts'
import { findBranch } from '../catalog/branch.ts'
import type { Catalog, Db } from '../catalog/catalog.ts'
import { lockEndpoint } from '../catalog/endpoint.ts'
import { lockProject } from '../catalog/project.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { queueCheck } from '../operations/check_availability.ts'
import type { Loop } from './periodic.ts'

/** Checks that one worker queues in a round; rounds are at least a second apart. */
const AT_ONCE = 4
const SHORTEST_SLEEP_MS = 1_000
const LONGEST_SLEEP_MS = 60_000
/** Seconds until a branch with unfinished operations is tried again. */
const BUSY_SECONDS = 60

/**
 * Queues a check of each enabled endpoint's branch once per interval, spread over the interval. The cost grows with the
 * checks that are due.
 */
export function startAvailabilityLoop({ catalog, config, log }: WorkerContext): Loop {
  const interval = config.availabilityInterval
  const loop = createEventLoop({
    async look() {
      await queueDueChecks(catalog, interval)
      const ms = (await nextCheck(catalog)) ?? LONGEST_SLEEP_MS
      return Math.max(Math.min(ms, LONGEST_SLEEP_MS, interval * 1000), SHORTEST_SLEEP_MS)
    },
    onError: (error) => log.warn({ err: error }, 'could not queue checks of availability'),
    retry: { firstMs: LONGEST_SLEEP_MS, maxMs: LONGEST_SLEEP_MS },
  })
  if (interval > 0) loop.wake()
  return loop
}

/** Queues the due checks, each once even if several workers look. Returns their number. */
export async function queueDueChecks(catalog: Catalog, intervalSeconds: number): Promise<number> {
  await spreadChecks(catalog, intervalSeconds)
  const due = await takeDueChecks(catalog, AT_ONCE)
  let queued = 0
  for (const taken of due) if (await catalog.transaction((tx) => queueDue(tx, taken, intervalSeconds))) queued += 1
  return queued
}

async function queueDue(tx: Db, taken: DueCheck, intervalSeconds: number): Promise<boolean> {
  const project = await lockProject(tx, taken.account_id, taken.project_id)
  const locked = project && (await lockEndpoint(tx, taken.id))
  const endpoint = locked?.deleted_at === null ? locked : undefined
  const branch = endpoint && (await findBranch(tx, endpoint.project_id, endpoint.branch_id))
  const busy = endpoint !== undefined && (await isBranchTaken(tx, endpoint.project_id, endpoint.branch_id))
  const next = busy ? Math.min(BUSY_SECONDS, intervalSeconds) : intervalSeconds
  if (!(await setNextCheck(tx, taken, next)) || busy) return false
  // A branch whose creation failed has no data to check.
  if (!endpoint || endpoint.disabled || branch?.current_state !== 'ready') return false
  await queueCheck(tx, endpoint)
  return true
}
