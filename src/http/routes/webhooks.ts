import { type Static, Type } from 'typebox'
import { lockAccount } from '../../catalog/account.ts'
import {
  deleteWebhook as deleteWebhookRow,
  findWebhook,
  insertWebhook,
  listWebhooks as listWebhookRows,
  rotateWebhookSecret as rotateSecretRow,
  updateWebhook as updateWebhookRow,
  type Webhook as WebhookRow,
  WEBHOOK_EVENTS,
  type WebhookEvent,
} from '../../catalog/webhook.ts'
import { endWaiting } from '../../catalog/webhook_delivery.ts'
import { requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { newUuid } from '../../ids.ts'
import { webhookSecretContext } from '../../secrets/contexts.ts'
import { requireWebhookUrl } from '../../webhooks/address.ts'
import { newWebhookSecret } from '../../webhooks/signature.ts'
import { type RequestContext, route } from '../route.ts'

/** Each costs whatever it is told of. */
const MAX_WEBHOOKS = 50
/** So long the secret before counts after a rotation. */
const ROTATION_HOURS = 24

const Moment = Type.String({ format: 'date-time' })
const Event = Type.Unsafe<WebhookEvent>({ type: 'string', enum: [...WEBHOOK_EVENTS] })

const Webhook = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    url: Type.String(),
    events: Type.Array(Event),
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
function presentWebhook(row: WebhookRow): Static<typeof Webhook> {
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

export const WebhookId = Type.Object({
  webhook_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

const Url = Type.String({ minLength: 1, maxLength: 2048, description: 'Where to: https, no user or password' })
const Events = Type.Array(Event, { minItems: 1, maxItems: 100 })
const ProjectId = Type.String({ description: 'The one project to be told of' })
const Enabled = Type.Boolean({ description: 'True unless said' })

const Secret = Type.String({ description: 'What the signatures are checked with (Standard Webhooks); shown this once' })

export const createWebhook = route('POST /webhooks', {
  summary: 'Create a webhook; the secret of its signatures is shown this once',
  tag: 'Webhook',
  scope: 'admin',
  status: 201,
  body: Type.Object({
    webhook: Type.Object({
      url: Url,
      events: Events,
      project_id: Type.Optional(ProjectId),
      enabled: Type.Optional(Enabled),
    }),
  }),
  returns: Type.Object({ webhook: Webhook, secret: Secret }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'WEBHOOKS_LIMIT_EXCEEDED'],
}).handle(async ({ body }, context) => {
  const { db, caller, config, secrets } = context
  const { events, project_id, enabled = true } = body.webhook
  const url = requireWebhookUrl(body.webhook.url, config.webhookAllow)
  if (project_id !== undefined) await requireProject(context, project_id)
  await lockAccount(db, caller.account.id)
  if ((await listWebhookRows(db, caller.account.id)).length >= MAX_WEBHOOKS)
    throw new AppError(
      'WEBHOOKS_LIMIT_EXCEEDED',
      `The account has ${MAX_WEBHOOKS} webhooks, which is as many as it may.`,
    )
  const [id, secret] = [newUuid(), newWebhookSecret()]
  const row = await insertWebhook(db, {
    id,
    account_id: caller.account.id,
    project_id: project_id ?? null,
    url,
    events: [...new Set(events)],
    enabled,
    secret: secrets.encrypt('webhook', secret, webhookSecretContext(id)),
  })
  return { webhook: presentWebhook(row), secret }
})

export const listWebhooks = route('GET /webhooks', {
  summary: 'List the webhooks of the account',
  tag: 'Webhook',
  scope: 'admin',
  returns: Type.Object({ webhooks: Type.Array(Webhook) }),
  errors: [],
}).handle(async (_request, { db, caller }) => ({
  webhooks: (await listWebhookRows(db, caller.account.id)).map(presentWebhook),
}))

export const getWebhook = route('GET /webhooks/:webhook_id', {
  summary: 'Get one webhook',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  webhook: presentWebhook(await requireWebhook(context, params.webhook_id)),
}))

export const updateWebhook = route('PATCH /webhooks/:webhook_id', {
  summary: 'Change a webhook; what waits to be delivered is given up when it is disabled',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  body: Type.Object({
    webhook: Type.Object({
      url: Type.Optional(Url),
      events: Type.Optional(Events),
      project_id: Type.Optional(Type.Union([ProjectId, Type.Null()])),
      enabled: Type.Optional(Enabled),
    }),
  }),
  returns: Type.Object({ webhook: Webhook }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const { db, caller, config } = context
  const { url, events, project_id, enabled } = body.webhook
  await requireWebhook(context, params.webhook_id)
  if (project_id) await requireProject(context, project_id)
  const row = await updateWebhookRow(db, caller.account.id, params.webhook_id, {
    url: url === undefined ? undefined : requireWebhookUrl(url, config.webhookAllow),
    events: events && [...new Set(events)],
    project_id,
    enabled,
  })
  if (!row) throw noWebhook(params.webhook_id)
  if (enabled === false) await endWaiting(db, row.id, 'the webhook was disabled')
  return { webhook: presentWebhook(row) }
})

export const rotateWebhookSecret = route('POST /webhooks/:webhook_id/rotate_secret', {
  summary: `Give a webhook a new secret; both are signed with for ${ROTATION_HOURS} hours`,
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook, secret: Secret }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, { db, caller, secrets }) => {
  const { webhook_id: id } = params
  const secret = newWebhookSecret()
  // As the catalog writes it: what is sealed for another spelling of the id would not open.
  const sealed = secrets.encrypt('webhook', secret, webhookSecretContext(id.toLowerCase()))
  const row = await rotateSecretRow(db, caller.account.id, id, sealed, ROTATION_HOURS)
  if (!row) throw noWebhook(id)
  return { webhook: presentWebhook(row), secret }
})

export const deleteWebhook = route('DELETE /webhooks/:webhook_id', {
  summary: 'Delete a webhook; nothing more is sent',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, { db, caller }) => {
  const row = await deleteWebhookRow(db, caller.account.id, params.webhook_id)
  if (!row) throw noWebhook(params.webhook_id)
  await endWaiting(db, row.id, 'the webhook was deleted')
  return { webhook: presentWebhook(row) }
})

/** The caller's webhook. Errors: NOT_FOUND. */
export async function requireWebhook({ db, caller }: RequestContext, id: string): Promise<WebhookRow> {
  const webhook = await findWebhook(db, caller.account.id, id)
  if (!webhook) throw noWebhook(id)
  return webhook
}

const noWebhook = (id: string) => new AppError('NOT_FOUND', `webhook ${id} not found`)
