import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The events of webhooks. The first word names the table of the event's row. */
export const WEBHOOK_EVENTS = [
  'operation.scheduling',
  'operation.running',
  'operation.finished',
  'operation.failed',
  'endpoint.created',
  'endpoint.updated',
  'endpoint.scaled',
  'endpoint.active',
  'endpoint.idle',
  'endpoint.deleted',
  'branch.created',
  'branch.ready',
  'branch.updated',
  'branch.deleted',
  'notice.raised',
  'host.image_resized',
  'host.image_short',
] as const

export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

export interface Webhook {
  readonly id: string
  readonly account_id: string
  readonly project_id: string | null
  readonly url: string
  readonly events: WebhookEvent[]
  readonly enabled: boolean
  readonly disabled_reason: string | null
  readonly secret: Buffer
  readonly previous_secret: Buffer | null
  readonly previous_secret_until: string | null
  readonly failing_since: string | null
  readonly created_at: string
  readonly updated_at: string
}

export async function insertWebhook(
  tx: Db,
  webhook: Pick<Webhook, 'id' | 'account_id' | 'project_id' | 'url' | 'events' | 'enabled' | 'secret'>,
): Promise<Webhook> {
  const row = await tx.row<Webhook>(sql`
    insert into webhook (id, account_id, project_id, url, events, enabled, secret)
    values (${webhook.id}, ${webhook.account_id}, ${webhook.project_id}, ${webhook.url}, ${webhook.events},
            ${webhook.enabled}, ${webhook.secret})
    returning *`)
  return row as Webhook
}

/** The webhooks of an account, oldest first. */
export function listWebhooks(db: Db, accountId: string): Promise<Webhook[]> {
  return db.rows(sql`select * from webhook where account_id = ${accountId} order by created_at, id`)
}

export function findWebhook(db: Db, accountId: string, id: string): Promise<Webhook | undefined> {
  return db.row(sql`select * from webhook where id = ${id} and account_id = ${accountId}`)
}

/** For the worker: finds a webhook of any account. */
export function findWebhookOfDelivery(db: Db, id: string): Promise<Webhook | undefined> {
  return db.row(sql`select * from webhook where id = ${id}`)
}

/** Changes the given attributes; `project_id: null` removes the restriction. Enabling clears the recorded failures. */
export function updateWebhook(
  tx: Db,
  accountId: string,
  id: string,
  changes: {
    url?: string | undefined
    events?: readonly WebhookEvent[] | undefined
    enabled?: boolean | undefined
    project_id?: string | null | undefined
  },
): Promise<Webhook | undefined> {
  return tx.row(sql`
    update webhook set url = coalesce(${changes.url}, url), events = coalesce(${changes.events}, events),
           enabled = coalesce(${changes.enabled}, enabled),
           disabled_reason = case when ${changes.enabled === undefined} then disabled_reason end,
           failing_since = case when ${changes.enabled === true} then null else failing_since end,
           project_id = case when ${changes.project_id !== undefined} then ${changes.project_id} else project_id end,
           updated_at = clock_timestamp()
     where id = ${id} and account_id = ${accountId} returning *`)
}

/** Gives a webhook a new secret. The current one stays valid for so many hours. */
export function rotateWebhookSecret(
  tx: Db,
  accountId: string,
  id: string,
  secret: Buffer,
  hours: number,
): Promise<Webhook | undefined> {
  return tx.row(sql`
    update webhook set previous_secret = secret,
           previous_secret_until = clock_timestamp() + make_interval(hours => ${hours}),
           secret = ${secret}, updated_at = clock_timestamp()
     where id = ${id} and account_id = ${accountId} returning *`)
}

/** Deletes a webhook. Its remaining deliveries cannot be read any more and are removed by age. */
export function deleteWebhook(tx: Db, accountId: string, id: string): Promise<Webhook | undefined> {
  return tx.row(sql`delete from webhook where id = ${id} and account_id = ${accountId} returning *`)
}

/** Records a successful delivery: only later failures count against the webhook. */
export async function noteReached(db: Db, id: string): Promise<void> {
  await db.rows(sql`update webhook set failing_since = null where id = ${id} and failing_since is not null`)
}

/** Records a failed delivery, and disables the webhook if none has succeeded for `days` since the first failure. */
export function noteGivenUp(tx: Db, id: string, days: number, reason: string): Promise<Webhook | undefined> {
  return tx.row(sql`
    update webhook set failing_since = coalesce(failing_since, clock_timestamp()),
           enabled = enabled and coalesce(failing_since > clock_timestamp() - make_interval(days => ${days}), true),
           disabled_reason = case when enabled and failing_since <= clock_timestamp() - make_interval(days => ${days})
                                  then ${reason} else disabled_reason end
     where id = ${id} returning *`)
}

/** Disables a webhook because of its response. */
export async function disableWebhook(tx: Db, id: string, reason: string): Promise<void> {
  await tx.rows(sql`
    update webhook set enabled = false, disabled_reason = ${reason}, updated_at = clock_timestamp()
     where id = ${id} and enabled`)
}
