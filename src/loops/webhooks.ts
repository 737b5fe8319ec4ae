import {
  nextDelivery,
  releaseDelivery,
  takeDeliveries,
  WEBHOOK_DELIVERIES,
  type WebhookDelivery,
} from '../catalog/webhook_delivery.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { cidrList } from '../network.ts'
import { deliver, type Delivering, type Present } from '../webhooks/deliver.ts'
import type { Loop } from './periodic.ts'

/** Concurrent attempts of one worker, in all and per webhook. */
const MAX_RUNNING = 64
const MAX_EACH = 4

/** Beyond the time-out of an attempt, for the queries around it. */
const LEASE_MARGIN_SECONDS = 5

/** Sleep without notifications: leases of dead workers, which send no notification, have expired by then. */
const LONGEST_SLEEP_MS = 30_000

/**
 * Delivers webhook events, in any number of workers. Looks on each notification of the catalog and when a retry is due.
 */
export async function startWebhookLoop(
  context: Pick<WorkerContext, 'catalog' | 'config' | 'secrets' | 'log'>,
  present: Present,
): Promise<Loop> {
  const { catalog, config, secrets, log } = context
  const stopping = new AbortController()
  const running = new Map<string, Promise<void>>()
  const underWay = new Map<string, number>()
  const delivering: Delivering = {
    catalog,
    secrets,
    present,
    reach: {
      allowed: cidrList(config.webhookAllow),
      timeoutMs: config.webhookTimeout * 1000,
      signal: stopping.signal,
    },
    onError: (error, { id }) => log.error({ err: error, delivery: id }, 'could not deliver to a webhook'),
  }
  const loop = createEventLoop({
    async look() {
      // Read first: of a delivery that becomes due meanwhile, the claim or the next look takes note.
      const ms = (await nextDelivery(catalog)) ?? LONGEST_SLEEP_MS
      await take()
      // A due delivery that found no free slot is taken when a slot becomes free.
      return Math.min(Math.max(ms, 0), LONGEST_SLEEP_MS) + 1
    },
    onError: (error) => log.warn({ err: error }, 'could not look for webhook deliveries'),
  })

  /** Takes deliveries until all slots are used or no more are due. */
  async function take(): Promise<void> {
    while (running.size < MAX_RUNNING && !stopping.signal.aborted) {
      const leaseSeconds = config.webhookTimeout + LEASE_MARGIN_SECONDS
      const taken = await takeDeliveries(catalog, {
        most: MAX_RUNNING - running.size,
        maxEach: MAX_EACH,
        underWay,
        leaseSeconds,
      })
      taken.forEach(begin)
      if (taken.length === 0) return
    }
  }

  function begin(delivery: WebhookDelivery): void {
    const { webhook_id } = delivery
    underWay.set(webhook_id, (underWay.get(webhook_id) ?? 0) + 1)
    // An attempt that outlived its lease may run beside the next one.
    const attempt = `${delivery.id} ${delivery.attempts}`
    const run = deliver(delivery, delivering)
      .catch(async (error: unknown) => {
        if (stopping.signal.aborted) await releaseDelivery(catalog, delivery)
        else
          log.warn(
            { err: error, delivery: delivery.id },
            'could not record the outcome of a webhook delivery; it is repeated',
          )
      })
      .catch((error: unknown) =>
        log.warn({ err: error, delivery: delivery.id }, 'could not release a webhook delivery'),
      )
      .finally(() => {
        running.delete(attempt)
        const left = (underWay.get(webhook_id) ?? 1) - 1
        if (left > 0) underWay.set(webhook_id, left)
        else underWay.delete(webhook_id)
        loop.wake()
      })
    running.set(attempt, run)
  }

  const unlisten = await catalog.listen(WEBHOOK_DELIVERIES, loop.wake)
  loop.wake()
  return {
    async stop() {
      stopping.abort()
      unlisten()
      await loop.stop()
      await Promise.all(running.values())
    },
  }
}
