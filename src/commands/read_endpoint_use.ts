import { computeAddress } from '../catalog/compute.ts'
import { findEndpoint, readIdleSeconds } from '../catalog/endpoint.ts'
import { idleSecondsOf, readActivity } from '../compute_admin/activity.ts'
import { LOOK_TIMEOUT_MS, withAdminSession } from '../compute_admin/session.ts'
import { readUses, type Slot, type Use } from '../compute_admin/uses.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'

const LOOK = { purpose: 'look', timeoutMs: LOOK_TIMEOUT_MS }

export interface EndpointUse {
  readonly busy: boolean
  /** Start of the idle time as far as known, in milliseconds since 1970. */
  readonly idleSince: number
  readonly uses: readonly Use[]
  readonly slots: readonly Slot[]
}

/**
 * Reads activity and sessions of an endpoint's compute, as the idle loop does. The reading does not count as use.
 * Returns undefined when no compute runs. Errors: UNAVAILABLE (it does not answer).
 */
export async function lookAtUse({ catalog, secrets }: Context, endpointId: string): Promise<EndpointUse | undefined> {
  const [known, endpoint] = await Promise.all([readIdleSeconds(catalog, endpointId), findEndpoint(catalog, endpointId)])
  const address = endpoint && computeAddress(endpoint)
  if (!known || !address) return undefined
  try {
    return await withAdminSession(address, secrets.stores, LOOK, async (session) => {
      const activity = await readActivity(session)
      const seconds = idleSecondsOf(activity, { counters: endpoint.idle_counters, idleSeconds: known.seconds })
      const { uses, slots } = await readUses(session)
      return { busy: activity.busy, idleSince: Date.parse(known.now) - seconds * 1000, uses, slots }
    })
  } catch (error) {
    throw new AppError(
      'UNAVAILABLE',
      'The compute of the endpoint does not answer. If it has crashed, the next connection starts it; try again.',
      { cause: error },
    )
  }
}
