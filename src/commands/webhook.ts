import { lockAccount } from '../catalog/account.ts'
import {
  deleteWebhook as deleteWebhookRow,
  findWebhook,
  insertWebhook,
  listWebhooks,
  rotateWebhookSecret as rotateSecretRow,
  updateWebhook,
  type Webhook,
  type WebhookEvent,
} from '../catalog/webhook.ts'
import { endWaiting } from '../catalog/webhook_delivery.ts'
import { AppError } from '../errors.ts'
import { newUuid } from '../ids.ts'
import { webhookSecretContext } from '../secrets/contexts.ts'
import { requireWebhookUrl } from '../webhooks/address.ts'
import { newWebhookSecret } from '../webhooks/signature.ts'
import type { CommandContext } from './command.ts'
import { requireProject } from './require.ts'

/** Each webhook costs a delivery per event. */
const MAX_WEBHOOKS = 50

/** How long the previous secret stays valid after a rotation. */
export const ROTATION_HOURS = 24

export interface AskedWebhook {
  readonly url: string
  readonly events: readonly WebhookEvent[]
  readonly project_id?: string
  readonly enabled?: boolean
}

/** A webhook and its new secret, which is shown only once. */
export interface WebhookWithSecret {
  readonly webhook: Webhook
  readonly secret: string
}

/** Creates a webhook. Errors: NOT_FOUND (project), NOT_ALLOWED (address), WEBHOOKS_LIMIT_EXCEEDED. */
export async function createWebhook(context: CommandContext, asked: AskedWebhook): Promise<WebhookWithSecret> {
  const { db, account, config, secrets } = context
  const { events, project_id, enabled = true } = asked
  const url = requireWebhookUrl(asked.url, config.webhookAllow)
  if (project_id !== undefined) await requireProject(context, project_id)
  await lockAccount(db, account.id)
  if ((await listWebhooks(db, account.id)).length >= MAX_WEBHOOKS)
    throw new AppError(
      'WEBHOOKS_LIMIT_EXCEEDED',
      `The account has ${MAX_WEBHOOKS} webhooks, which is as many as it may.`,
    )
  const [id, secret] = [newUuid(), newWebhookSecret()]
  const webhook = await insertWebhook(db, {
    id,
    account_id: account.id,
    project_id: project_id ?? null,
    url,
    events: [...new Set(events)],
    enabled,
    secret: secrets.encrypt('webhook', secret, webhookSecretContext(id)),
  })
  return { webhook, secret }
}

/** The attributes of a webhook that a request may change; a null `project_id` means all projects. */
export type WebhookChanges = Partial<Omit<AskedWebhook, 'project_id'>> & { readonly project_id?: string | null }

/** Changes a webhook. Disabling it cancels its pending deliveries. Errors: NOT_FOUND, NOT_ALLOWED (address). */
export async function changeWebhook(context: CommandContext, id: string, asked: WebhookChanges): Promise<Webhook> {
  const { db, account, config } = context
  const { url, events, project_id, enabled } = asked
  await requireWebhook(context, id)
  if (project_id) await requireProject(context, project_id)
  const webhook = await updateWebhook(db, account.id, id, {
    url: url === undefined ? undefined : requireWebhookUrl(url, config.webhookAllow),
    events: events && [...new Set(events)],
    project_id,
    enabled,
  })
  if (!webhook) throw noWebhook(id)
  if (enabled === false) await endWaiting(db, webhook.id, 'the webhook was disabled')
  return webhook
}

/** Gives a webhook a new secret; deliveries are signed with both for `ROTATION_HOURS`. Errors: NOT_FOUND. */
export async function rotateWebhookSecret(
  { db, account, secrets }: CommandContext,
  id: string,
): Promise<WebhookWithSecret> {
  const secret = newWebhookSecret()
  // The catalog stores ids in lower case, and the secret is encrypted for exactly that spelling.
  const sealed = secrets.encrypt('webhook', secret, webhookSecretContext(id.toLowerCase()))
  const webhook = await rotateSecretRow(db, account.id, id, sealed, ROTATION_HOURS)
  if (!webhook) throw noWebhook(id)
  return { webhook, secret }
}

/** Deletes a webhook and cancels its pending deliveries. Errors: NOT_FOUND. */
export async function deleteWebhook({ db, account }: CommandContext, id: string): Promise<Webhook> {
  const webhook = await deleteWebhookRow(db, account.id, id)
  if (!webhook) throw noWebhook(id)
  await endWaiting(db, webhook.id, 'the webhook was deleted')
  return webhook
}

/** The caller's webhook. Errors: NOT_FOUND. */
export async function requireWebhook({ db, account }: CommandContext, id: string): Promise<Webhook> {
  const webhook = await findWebhook(db, account.id, id)
  if (!webhook) throw noWebhook(id)
  return webhook
}

const noWebhook = (id: string) => new AppError('NOT_FOUND', `webhook ${id} not found`)
