/*
 * Finds unused active endpoints and queues their suspend. An endpoint is idle since the last byte that the proxies saw.
 * Postgres itself is queried, at most four times per time-out, only for endpoints without recent traffic at the
 * proxies.
 */
import { computeAddress, type ComputeColumns } from '../catalog/compute.ts'
import { findEndpoint, nextIdleCheck, setIdleCheck, takeIdleChecks } from '../catalog/endpoint.ts'
import { lockProject } from '../catalog/project.ts'
import { type Activity, idleSecondsOf, readActivity } from '../compute_admin/activity.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { inTurn } from '../in_turn.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'
import type { Loop } from './periodic.ts'

const NEVER = -1
const SHORTEST_SLEEP_MS = 20
const LONGEST_SLEEP_MS = 60_000
/** How long a compute that does not answer keeps the next one from its check. */
const PATIENCE_MS = 50

/** Starts the loop for the computes of this host. Its cost grows with active endpoints only. */
export async function startIdleLoop(context: WorkerContext): Promise<Loop> {
  const { catalog, hostId, log } = context
  const loop = createEventLoop({
    async look(isDue) {
      // A change of an endpoint may only move the time of the next check.
      if (isDue) await checkDue(context)
      const ms = await nextIdleCheck(catalog, hostId)
      return Math.min(Math.max(ms ?? LONGEST_SLEEP_MS, SHORTEST_SLEEP_MS), LONGEST_SLEEP_MS)
    },
    onError: (error) => log.warn({ err: error }, 'the idle loop failed'),
  })
  const unlisten = await catalog.listen('endpoint', loop.wake)
  loop.wake()
  return {
    stop() {
      unlisten()
      return loop.stop()
    },
  }
}

async function checkDue(context: WorkerContext): Promise<void> {
  const due = await takeIdleChecks(context.catalog, context.hostId)
  const checkOne = (endpoint: Taken): Promise<void> =>
    check(context, endpoint).catch((error: unknown) => {
      context.log.warn({ err: error, endpoint: endpoint.id }, 'could not read the activity of a compute')
    })
  // Those that started together are due together, and each session costs a login.
  await inTurn(due, checkOne, PATIENCE_MS)
}

type Taken = Awaited<ReturnType<typeof takeIdleChecks>>[number]

async function check(context: WorkerContext, endpoint: Taken): Promise<void> {
  const { catalog, config } = context
  const timeout = endpoint.suspend_timeout_seconds || config.suspendTimeout
  const asBefore = { counters: endpoint.idle_counters, idleSeconds: endpoint.idle_seconds }
  if (timeout === NEVER) {
    await setIdleCheck(catalog, endpoint, { ...asBefore, idleSeconds: 0, nextSeconds: 3600 })
    return
  }
  const between = Math.max(timeout / 4, 0.25)
  // A suspend under way compares its reading with the last one of this loop, which must not change meanwhile.
  if (endpoint.pending_state !== null) {
    await setIdleCheck(catalog, endpoint, { ...asBefore, nextSeconds: Math.min(between, 1) })
    return
  }
  if (endpoint.quiet_seconds < between) {
    await setIdleCheck(catalog, endpoint, { ...asBefore, nextSeconds: between - endpoint.quiet_seconds })
    return
  }
  const activity = await read(context, endpoint)
  const idleSeconds = idleSecondsOf(activity, asBefore)
  const nextSeconds = Math.min(between, Math.max(timeout - idleSeconds, 0.25))
  const found = { counters: activity.counters, idleSeconds, nextSeconds }
  if ((await setIdleCheck(catalog, endpoint, found)) && !activity.busy && idleSeconds >= timeout)
    await suspend(context, endpoint)
}

function read({ secrets }: WorkerContext, endpoint: ComputeColumns): Promise<Activity> {
  const address = computeAddress(endpoint)
  if (!address) throw new Error('no compute of the endpoint runs any more')
  return withAdminSession(address, secrets.stores, { purpose: 'activity' }, readActivity)
}

/** Queues the suspend, unless the time-out changed or another operation was queued since the look. */
async function suspend({ catalog }: WorkerContext, endpoint: Taken): Promise<void> {
  await catalog.transaction(async (tx) => {
    if (!(await lockProject(tx, endpoint.account_id, endpoint.project_id))) return
    const now = await findEndpoint(tx, endpoint.id)
    if (now?.current_state !== 'active' || now.pending_state !== null) return
    if (now.suspend_timeout_seconds !== endpoint.suspend_timeout_seconds) return
    await queueSuspend(tx, now, 'idle')
  })
}
