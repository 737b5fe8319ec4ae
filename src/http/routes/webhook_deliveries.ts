import { type Static, Type } from 'typebox'
import type { Webhook } from '../../catalog/webhook.ts'
import {
  insertDelivery,
  listDeliveries,
  redeliver,
  type WebhookDelivery as DeliveryRow,
} from '../../catalog/webhook_delivery.ts'
import { requireWebhook } from '../../commands/webhook.ts'
import { AppError } from '../../errors.ts'
import { type RequestContext, route } from '../route.ts'
import { WebhookId } from './webhooks.ts'

const Moment = Type.String({ format: 'date-time' })

const WebhookDelivery = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'The same at every try, as the header webhook-id' }),
    event: Type.String(),
    status: Type.Union([Type.Literal('pending'), Type.Literal('delivered'), Type.Literal('failed')]),
    occurred_at: Moment,
    attempts: Type.Integer(),
    attempted_at: Type.Optional(Moment),
    next_attempt_at: Type.Optional(Moment),
    response_status: Type.Optional(Type.Integer({ description: 'Of the last try, as what follows' })),
    response_body: Type.Optional(Type.String({ description: 'Its beginning' })),
    error: Type.Optional(Type.String()),
  },
  { $id: 'WebhookDelivery' },
)

function presentDelivery(row: DeliveryRow): Static<typeof WebhookDelivery> {
  return {
    id: row.id,
    event: row.event,
    status: row.status,
    occurred_at: row.occurred_at,
    attempts: row.attempts,
    ...(row.attempted_at && { attempted_at: row.attempted_at }),
    ...(row.due_at && { next_attempt_at: row.due_at }),
    ...(row.response_status !== null && { response_status: row.response_status }),
    ...(row.response_body !== null && { response_body: row.response_body }),
    ...(row.error !== null && { error: row.error }),
  }
}

export const listWebhookDeliveries = route('GET /webhooks/:webhook_id/deliveries', {
  summary: 'List what a webhook was told in the last days, newest first',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'pagination.cursor of the page before',
      }),
    ),
  }),
  returns: Type.Object({
    deliveries: Type.Array(WebhookDelivery),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  const webhook = await requireWebhook(context, params.webhook_id)
  const rows = await listDeliveries(context.db, webhook.id, query.limit ?? 100, query.cursor)
  const last = rows.at(-1)
  return { deliveries: rows.map(presentDelivery), ...(last && { pagination: { cursor: String(last.number) } }) }
})

export const redeliverToWebhook = route('POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver', {
  summary: 'Repeat a delivery under its old id',
  tag: 'Webhook',
  scope: 'admin',
  params: Type.Object({
    ...WebhookId.properties,
    delivery_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
  }),
  returns: Type.Object({ delivery: WebhookDelivery }),
  errors: ['NOT_FOUND', 'CONFLICT'],
}).handle(async ({ params }, context) => {
  const webhook = await requireEnabled(context, params.webhook_id)
  const row = await redeliver(context.db, webhook.id, params.delivery_id)
  if (!row) throw new AppError('NOT_FOUND', `delivery ${params.delivery_id} not found`)
  return { delivery: presentDelivery(row) }
})

export const testWebhook = route('POST /webhooks/:webhook_id/test', {
  summary: 'Send a test event, webhook.test, to a webhook',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ delivery: WebhookDelivery }),
  errors: ['NOT_FOUND', 'CONFLICT'],
}).handle(async ({ params }, context) => {
  const { id: webhook_id } = await requireEnabled(context, params.webhook_id)
  return { delivery: presentDelivery(await insertDelivery(context.db, webhook_id, 'webhook.test', { webhook_id })) }
})

/** Errors: NOT_FOUND; CONFLICT (the webhook is disabled). */
async function requireEnabled(context: RequestContext, id: string): Promise<Webhook> {
  const webhook = await requireWebhook(context, id)
  if (!webhook.enabled) throw new AppError('CONFLICT', `The webhook ${id} is disabled. Enable it and try again.`)
  return webhook
}
