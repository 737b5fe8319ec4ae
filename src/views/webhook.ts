import { type Static, Type } from 'typebox'
import { type Webhook as WebhookRow, WEBHOOK_EVENTS, type WebhookEvent } from '../catalog/webhook.ts'

const Moment = Type.String({ format: 'date-time' })

export const WebhookEventName = Type.Unsafe<WebhookEvent>({ type: 'string', enum: [...WEBHOOK_EVENTS] })

export const Webhook = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    url: Type.String(),
    events: Type.Array(WebhookEventName),
    project_id: Type.Optional(
      Type.String({ description: 'The one project that it is told of; all of them without it' }),
    ),
    enabled: Type.Boolean(),
    disabled_reason: Type.Optional(Type.String({ description: 'Why Neap has disabled it' })),
    failing_since: Type.Optional(Moment),
    previous_secret_until: Type.Optional(Moment),
    created_at: Moment,
    updated_at: Moment,
  },
  { $id: 'Webhook' },
)

/** A webhook as clients see it: never its secret. */
export function webhookView(row: WebhookRow): Static<typeof Webhook> {
  const { previous_secret_until: until } = row
  return {
    id: row.id,
    url: row.url,
    events: row.events,
    ...(row.project_id && { project_id: row.project_id }),
    enabled: row.enabled,
    ...(row.disabled_reason && { disabled_reason: row.disabled_reason }),
    ...(row.failing_since && { failing_since: row.failing_since }),
    ...(until && Date.parse(until) > Date.now() && { previous_secret_until: until }),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
