import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The channel of new deliveries. */
export const WEBHOOK_DELIVERIES = 'webhook_delivery'

export interface WebhookDelivery {
  readonly id: string
  readonly number: number
  readonly webhook_id: string
  readonly event: string
  readonly subject: object
  readonly status: 'pending' | 'delivered' | 'failed'
  readonly attempts: number
  readonly attempts_before: number
  readonly due_at: string | null
  readonly occurred_at: string
  readonly attempted_at: string | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly error: string | null
}

/** Inserts a delivery that a request caused directly, without a change of a row. */
export async function insertDelivery(
  tx: Db,
  webhookId: string,
  event: string,
  subject: object,
): Promise<WebhookDelivery> {
  const row = await tx.row<WebhookDelivery>(sql`
    with told as (select pg_notify(${WEBHOOK_DELIVERIES}, ''))
    insert into webhook_delivery (webhook_id, event, subject)
    select ${webhookId}, ${event}, ${JSON.stringify(subject)} from told returning *`)
  return row as WebhookDelivery
}

/** A page of the deliveries of a webhook, newest first: those before the number `before`. */
export function listDeliveries(
  db: Db,
  webhookId: string,
  limit: number,
  before: number | undefined,
): Promise<WebhookDelivery[]> {
  return db.rows(sql`
    select * from webhook_delivery
     where webhook_id = ${webhookId} and number < coalesce(${before}::bigint, 9223372036854775807)
     order by number desc limit ${limit}`)
}

/** Makes a delivery due again, with a full set of attempts. Returns undefined when the webhook has no such delivery. */
export function redeliver(tx: Db, webhookId: string, id: string): Promise<WebhookDelivery | undefined> {
  return tx.row(sql`
    update webhook_delivery set status = 'pending', due_at = clock_timestamp(), attempts_before = attempts
     where id = ${id} and webhook_id = ${webhookId} returning *, pg_notify(${WEBHOOK_DELIVERIES}, '')`)
}

/** Fails the pending deliveries of a webhook. */
export async function endWaiting(tx: Db, webhookId: string, error: string): Promise<void> {
  await tx.rows(sql`
    update webhook_delivery set status = 'failed', due_at = null, error = ${error}
     where webhook_id = ${webhookId} and due_at is not null`)
}

export interface DeliveryRoom {
  /** Maximum for all webhooks together. */
  readonly most: number
  /** Maximum per webhook, including deliveries under way. */
  readonly maxEach: number
  /** Deliveries under way in this worker, by webhook. */
  readonly underWay: ReadonlyMap<string, number>
  /** How long other workers skip them: longer than an attempt can take. */
  readonly leaseSeconds: number
}

/**
 * Claims due deliveries, so that other workers skip them meanwhile, and counts the attempt. Visits each webhook with
 * pending deliveries by their index: a long queue of one neither delays the others nor is scanned. clock_timestamp() is
 * a subquery so that it is evaluated once: otherwise it would be evaluated per row and no index would be used. Commits
 * asynchronously: a claim that a crash of the catalog loses is made again.
 */
export function takeDeliveries(db: Db, room: DeliveryRoom): Promise<WebhookDelivery[]> {
  return db.rows(sql`
    with recursive waiting as (
        (select webhook_id from webhook_delivery where due_at is not null order by webhook_id limit 1)
      union all
        select (select d.webhook_id from webhook_delivery d where d.due_at is not null and d.webhook_id > w.webhook_id
                 order by d.webhook_id limit 1)
          from waiting w where w.webhook_id is not null),
    due as (
      select d.id
        from waiting w
        left join unnest(${[...room.underWay.keys()]}::uuid[], ${[...room.underWay.values()]}::int[])
             b (webhook_id, count)
          on b.webhook_id = w.webhook_id
       cross join lateral (
         select id from webhook_delivery
          where webhook_id = w.webhook_id and due_at <= (select clock_timestamp())
          order by due_at limit greatest(0, ${room.maxEach}::int - coalesce(b.count, 0))
            for no key update skip locked) d
       order by random() limit ${room.most})
    update webhook_delivery d set attempts = d.attempts + 1, attempted_at = clock_timestamp(),
           due_at = clock_timestamp() + make_interval(secs => ${room.leaseSeconds})
      from due where d.id = due.id
    returning d.*, set_config('synchronous_commit', 'off', true)`)
}

export interface Attempted {
  readonly status: WebhookDelivery['status']
  readonly response_status?: number | undefined
  readonly response_body?: string | undefined
  readonly error?: string | undefined
  /** Seconds until the next attempt of a pending delivery. */
  readonly again?: number | undefined
}

/** Whether an attempt is the latest one of its delivery, which has not ended. */
const isLatest = ({ id, attempts }: Pick<WebhookDelivery, 'id' | 'attempts'>) =>
  sql`id = ${id} and attempts = ${attempts} and due_at is not null`

/**
 * Records the result of an attempt. Returns false, without a change, when another attempt has begun since, or the
 * delivery has ended.
 */
export async function noteAttempt(
  tx: Db,
  delivery: Pick<WebhookDelivery, 'id' | 'attempts'>,
  { status, response_status, response_body, error, again }: Attempted,
): Promise<boolean> {
  const row = await tx.row(sql`
    update webhook_delivery set status = ${status}, response_status = ${response_status},
           response_body = ${response_body}, error = ${error},
           due_at = case when ${status} = 'pending' then clock_timestamp() + make_interval(secs => ${again ?? 0}) end
     where ${isLatest(delivery)} returning set_config('synchronous_commit', 'off', true)`)
  return row !== undefined
}

/** Releases an aborted attempt: the next one is due at once, and this one does not count. */
export async function releaseDelivery(db: Db, delivery: Pick<WebhookDelivery, 'id' | 'attempts'>): Promise<void> {
  await db.rows(sql`
    update webhook_delivery set due_at = clock_timestamp(), attempts_before = attempts_before + 1
     where ${isLatest(delivery)} returning pg_notify(${WEBHOOK_DELIVERIES}, '')`)
}

/** Milliseconds until the next delivery that is not due yet. Returns undefined when there is no such delivery. */
export async function nextDelivery(db: Db): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as ms
      from webhook_delivery where due_at > (select clock_timestamp())`)
  return row?.ms ?? undefined
}

/** The row of a delivery's event, with the table's current column types. */
export async function subjectOf(
  { event, subject }: Pick<WebhookDelivery, 'event' | 'subject'>,
  db: Db,
): Promise<object> {
  const type = typeOf(event)
  if (!type) return subject
  const row = JSON.stringify(subject)
  return (await db.row<object>(sql`select * from jsonb_populate_record(${type}, ${row}::jsonb)`)) ?? {}
}

/** A row of the table that an event is about, as a null of its type. */
function typeOf(event: string) {
  switch (event.split('.')[0]) {
    case 'operation':
      return sql`null::operation`
    case 'endpoint':
      return sql`null::endpoint`
    case 'branch':
      return sql`null::branch`
    case 'notice':
      return sql`null::notice`
    default:
      return undefined
  }
}

/** Removes up to `limit` deliveries that are at least `days` old. Returns how many it removed. */
export async function expireDeliveries(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from webhook_delivery where id in (
      select id from webhook_delivery where occurred_at < statement_timestamp() - make_interval(days => ${days})
       order by occurred_at limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
