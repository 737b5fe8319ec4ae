import { forgetComputes } from '../catalog/compute.ts'
import { forgetReplies } from '../catalog/idempotency.ts'
import { forgetEvents } from '../catalog/operation_event.ts'
import { forgetDeletedProjects } from '../catalog/project.ts'
import { forgetOldHolds } from '../catalog/proxy.ts'
import { forgetRefusals } from '../catalog/refused_access.ts'
import { forgetTraffic } from '../catalog/traffic.ts'
import { forgetDeliveries } from '../catalog/webhook_delivery.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 3_600_000
/** How long the operations of a deleted project, events, deliveries and ended computes can be read. */
const KEPT_DAYS = 7
/** How long a request can be repeated with its Idempotency-Key. */
const REPLY_HOURS = 24

/** Removes rows past their retention, once an hour. */
export function startForgetLoop({ catalog, log }: WorkerContext): Loop {
  const forget = async (): Promise<void> => {
    await forgetDeletedProjects(catalog, KEPT_DAYS)
    await forgetOldHolds(catalog)
    await forgetReplies(catalog, REPLY_HOURS)
    await forgetEvents(catalog, KEPT_DAYS)
    await forgetDeliveries(catalog, KEPT_DAYS)
    await forgetTraffic(catalog)
    await forgetComputes(catalog, KEPT_DAYS)
    await forgetRefusals(catalog)
  }
  return startPeriodic(EVERY_MS, forget, (error) => log.warn({ err: error }, 'could not remove old rows'))
}
