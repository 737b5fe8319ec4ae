import { Type } from 'typebox'
import { listWebhooks } from '../../catalog/webhook.ts'
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  requireWebhook,
  rotateWebhookSecret,
  ROTATION_HOURS,
} from '../../commands/webhook.ts'
import { Webhook, WebhookEventName, webhookView } from '../../views/webhook.ts'
import { route } from '../route.ts'

export const WebhookId = Type.Object({
  webhook_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

const Url = Type.String({ minLength: 1, maxLength: 2048, description: 'Where to: https, no user or password' })
const Events = Type.Array(WebhookEventName, { minItems: 1, maxItems: 100 })
const ProjectId = Type.String({ description: 'The one project to be told of' })
const Enabled = Type.Boolean({ description: 'True unless said' })

const Secret = Type.String({ description: 'What the signatures are checked with (Standard Webhooks); shown this once' })

export const createAccountWebhook = route('POST /webhooks', {
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
  const { webhook, secret } = await createWebhook(context, body.webhook)
  return { webhook: webhookView(webhook), secret }
})

export const listAccountWebhooks = route('GET /webhooks', {
  summary: 'List the webhooks of the account',
  tag: 'Webhook',
  scope: 'admin',
  returns: Type.Object({ webhooks: Type.Array(Webhook) }),
  errors: [],
}).handle(async (_request, { db, account }) => ({
  webhooks: (await listWebhooks(db, account.id)).map(webhookView),
}))

export const getWebhook = route('GET /webhooks/:webhook_id', {
  summary: 'Get one webhook',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  webhook: webhookView(await requireWebhook(context, params.webhook_id)),
}))

export const updateAccountWebhook = route('PATCH /webhooks/:webhook_id', {
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
}).handle(async ({ params, body }, context) => ({
  webhook: webhookView(await changeWebhook(context, params.webhook_id, body.webhook)),
}))

export const rotateAccountWebhookSecret = route('POST /webhooks/:webhook_id/rotate_secret', {
  summary: `Give a webhook a new secret; both are signed with for ${ROTATION_HOURS} hours`,
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook, secret: Secret }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { webhook, secret } = await rotateWebhookSecret(context, params.webhook_id)
  return { webhook: webhookView(webhook), secret }
})

export const deleteAccountWebhook = route('DELETE /webhooks/:webhook_id', {
  summary: 'Delete a webhook; its deliveries end',
  tag: 'Webhook',
  scope: 'admin',
  params: WebhookId,
  returns: Type.Object({ webhook: Webhook }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  webhook: webhookView(await deleteWebhook(context, params.webhook_id)),
}))
