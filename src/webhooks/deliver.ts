/*
 *   pending ──2xx──▶ delivered
 *      │ ▲
 *      │ └── any other result: retried after a delay
 *      └── the last attempt failed, the answer was 410, the webhook was deleted or disabled ──▶ failed
 *
 * At least once: an attempt without a recorded result is repeated.
 */
import { jittered } from '../backoff.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { disableWebhook, findWebhookOfDelivery, noteGivenUp, noteReached, type Webhook } from '../catalog/webhook.ts'
import { endWaiting, noteAttempt, subjectOf, type WebhookDelivery } from '../catalog/webhook_delivery.ts'
import { AppError } from '../errors.ts'
import type { Secrets } from '../secrets/secrets.ts'
import { NotDelivered } from './address.ts'
import { post, type PostOptions, type Response } from './post.ts'
import { webhookSecretContext } from '../secrets/contexts.ts'
import { signatureHeaders } from './signature.ts'

/** Seconds before each try but the first. */
const RETRY_SECONDS = [5, 30, 120, 600, 3600, 14_400, 43_200]
const RETRY_JITTER = 0.2

/** Days of failed deliveries, without one that arrived, after which a webhook is disabled. */
const DISABLED_AFTER_DAYS = 3

const GONE = 410

/** Makes an event's data from its row, as the API would have answered then. */
export type Present = (delivery: Pick<WebhookDelivery, 'event' | 'occurred_at'>, row: object) => object

export interface Delivering {
  readonly catalog: Catalog
  readonly secrets: Secrets
  readonly present: Present
  readonly reach: PostOptions
  /** Logs an unexpected error. */
  readonly onError: (error: unknown, delivery: WebhookDelivery) => void
}

/** Makes one attempt at a delivery and records its result. Errors: the catalog's; the reason of an aborted signal. */
export async function deliver(delivery: WebhookDelivery, context: Delivering): Promise<void> {
  const { catalog } = context
  const webhook = await findWebhookOfDelivery(catalog, delivery.webhook_id)
  if (!webhook?.enabled) {
    const error = webhook ? 'the webhook is disabled' : 'the webhook was deleted'
    return endWaiting(catalog, delivery.webhook_id, error)
  }
  const came = await send(delivery, webhook, context).catch((error: unknown) => {
    if (error instanceof NotDelivered) return error
    const isAway = error instanceof AppError && error.code === 'UNAVAILABLE'
    if (isAway || context.reach.signal?.aborted) throw error
    // It counts as an attempt; otherwise it would be repeated every few seconds.
    context.onError(error, delivery)
    return new NotDelivered('it could not be sent: the log of the worker says why')
  })
  if (came instanceof NotDelivered) return failed(catalog, delivery, { error: came.message })
  const answered = { response_status: came.status, response_body: came.text }
  if (came.status >= 200 && came.status < 300) {
    if (await noteAttempt(catalog, delivery, { status: 'delivered', ...answered }))
      await noteReached(catalog, webhook.id)
    return
  }
  const redirected = came.status >= 300 && came.status < 400 ? ', and redirects are not followed' : ''
  await failed(catalog, delivery, { ...answered, error: `it answered ${came.status}${redirected}` })
}

async function send(
  delivery: WebhookDelivery,
  webhook: Webhook,
  { catalog, ...context }: Delivering,
): Promise<Response> {
  const data = context.present(delivery, await subjectOf(delivery, catalog))
  const body = JSON.stringify({ type: delivery.event, timestamp: delivery.occurred_at, data })
  const headers = signatureHeaders(secretsOf(webhook, context.secrets), delivery.id, Date.now(), body)
  return post(webhook.url, { ...headers, 'user-agent': 'Neap-Webhooks' }, body, context.reach)
}

/** The valid secrets, the newest first. */
function secretsOf(webhook: Webhook, secrets: Secrets): string[] {
  const { id, secret, previous_secret: previous, previous_secret_until: until } = webhook
  const counting = previous && until && Date.parse(until) > Date.now() ? [secret, previous] : [secret]
  return counting.map((sealed) => secrets.decrypt('webhook', sealed, webhookSecretContext(id)))
}

/** Schedules a retry, or gives the delivery up; disables a webhook that fails for long or is gone. */
async function failed(
  catalog: Catalog,
  delivery: WebhookDelivery,
  came: { readonly error: string; readonly response_status?: number; readonly response_body?: string },
): Promise<void> {
  const gone = came.response_status === GONE
  const seconds = RETRY_SECONDS[delivery.attempts - delivery.attempts_before - 1]
  if (seconds !== undefined && !gone) {
    await noteAttempt(catalog, delivery, { ...came, status: 'pending', again: jittered(seconds, RETRY_JITTER) })
    return
  }
  await catalog.transaction(async (tx) => {
    if (!(await noteAttempt(tx, delivery, { ...came, status: 'failed' }))) return
    const { webhook_id: id } = delivery
    const since = `no delivery has succeeded for ${DISABLED_AFTER_DAYS} days; last: ${came.error}`
    if (gone) await disableWebhook(tx, id, 'it answered 410 Gone')
    const webhook = await noteGivenUp(tx, id, DISABLED_AFTER_DAYS, since)
    if (webhook && !webhook.enabled) await endWaiting(tx, id, 'the webhook is disabled')
  })
}
