import { expireComputes } from '../catalog/compute.ts'
import { expireConsumption } from '../catalog/consumption.ts'
import { expireReplies } from '../catalog/idempotency.ts'
import { expireSessions } from '../catalog/session.ts'
import { expireEvents } from '../catalog/operation_event.ts'
import { expirePasswordlessLogins } from '../catalog/passwordless_login.ts'
import { expireDeletedProjects } from '../catalog/project.ts'
import { expirePauses } from '../catalog/proxy.ts'
import { expireRefusals } from '../catalog/refused_access.ts'
import { expireScalings } from '../catalog/scaling.ts'
import { expireTraffic } from '../catalog/traffic.ts'
import { expireDeliveries } from '../catalog/webhook_delivery.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 3_600_000
/** How long the operations of a deleted project, events, deliveries and ended computes can be read. */
const KEPT_DAYS = 7
/** How long a request can be repeated with its Idempotency-Key. */
const REPLY_HOURS = 24

/** Removes rows past their retention, once an hour. */
export function startRetentionLoop({ catalog, log }: WorkerContext): Loop {
  const forget = async (): Promise<void> => {
    await expireDeletedProjects(catalog, KEPT_DAYS)
    await expirePauses(catalog)
    await expireReplies(catalog, REPLY_HOURS)
    await expireSessions(catalog)
    await expirePasswordlessLogins(catalog)
    await expireEvents(catalog, KEPT_DAYS)
    await expireDeliveries(catalog, KEPT_DAYS)
    await expireTraffic(catalog)
    await expireConsumption(catalog)
    await expireComputes(catalog, KEPT_DAYS)
    await expireScalings(catalog, KEPT_DAYS)
    await expireRefusals(catalog)
  }
  return startPeriodic(EVERY_MS, forget, (error) => log.warn({ err: error }, 'could not remove old rows'))
}
