import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The channel that tells of new deliveries. */
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

/** Writes down an event that nothing but a request for it has caused. */
export async function insertDelivery(
  tx: Db,
  webhookId: string,
  event: string,
  subject: object,
): Promise<WebhookDelivery> {
  const row = await tx.row<WebhookDelivery>(sql`
    with told as (select pg_notify(${WEBHOOK_DELIVERIES}, ''))
    insert into webhook_delivery (webhook_id, event, subject) select ${webhookId}, ${event}, ${JSON.stringify(subject)} from told returning *`)
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
    select * from webhook_delivery where webhook_id = ${webhookId} and number < coalesce(${before}::bigint, 9223372036854775807)
     order by number desc limit ${limit}`)
}

/** Has a delivery made again, with all its tries before it. Nothing where the webhook has no such delivery. */
export function redeliver(tx: Db, webhookId: string, id: string): Promise<WebhookDelivery | undefined> {
  return tx.row(sql`
    update webhook_delivery set status = 'pending', due_at = clock_timestamp(), attempts_before = attempts
     where id = ${id} and webhook_id = ${webhookId} returning *, pg_notify(${WEBHOOK_DELIVERIES}, '')`)
}

/** Ends what a webhook has waiting. */
export async function endWaiting(tx: Db, webhookId: string, error: string): Promise<void> {
  await tx.rows(sql`
    update webhook_delivery set status = 'failed', due_at = null, error = ${error} where webhook_id = ${webhookId} and due_at is not null`)
}

export interface DeliveryRoom {
  /** How many at most, for all webhooks together. */
  readonly most: number
  /** How many of one webhook at once, what it is at included. */
  readonly maxEach: number
  /** How many are under way here, by webhook. */
  readonly underWay: ReadonlyMap<string, number>
  /** How long nobody else takes them: longer than an attempt can last. */
  readonly leaseSeconds: number
}

/**
 * Takes deliveries that are due, so that no other worker has them meanwhile, and counts the attempt. Goes from one webhook that has
 * something waiting to the next by their index: one with a long queue neither keeps the others from their turn nor is read through.
 * The time is asked for once, or every row would be compared with another and no index would help. Commits without waiting for the
 * disk: what a crash of the catalog loses is delivered again.
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
        left join unnest(${[...room.underWay.keys()]}::uuid[], ${[...room.underWay.values()]}::int[]) b (webhook_id, count)
          on b.webhook_id = w.webhook_id
       cross join lateral (
         select id from webhook_delivery
          where webhook_id = w.webhook_id and due_at <= (select clock_timestamp())
          order by due_at limit greatest(0, ${room.maxEach}::int - coalesce(b.count, 0)) for no key update skip locked) d
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
  /** Seconds until the next try, of one that is still pending. */
  readonly again?: number | undefined
}

/** Writes down what came of an attempt. False, and nothing is changed, where another has been begun since, or none is wanted any more. */
export async function noteAttempt(
  tx: Db,
  { id, attempts }: Pick<WebhookDelivery, 'id' | 'attempts'>,
  { status, response_status, response_body, error, again }: Attempted,
): Promise<boolean> {
  const row = await tx.row(sql`
    update webhook_delivery set status = ${status}, response_status = ${response_status}, response_body = ${response_body}, error = ${error},
           due_at = case when ${status} = 'pending' then clock_timestamp() + make_interval(secs => ${again ?? 0}) end
     where id = ${id} and attempts = ${attempts} and due_at is not null returning set_config('synchronous_commit', 'off', true)`)
  return row !== undefined
}

/** Gives an attempt back that was broken off here: the next one is due at once, and this one does not count. */
export async function releaseDelivery(
  db: Db,
  { id, attempts }: Pick<WebhookDelivery, 'id' | 'attempts'>,
): Promise<void> {
  await db.rows(sql`
    update webhook_delivery set due_at = clock_timestamp(), attempts_before = attempts_before + 1
     where id = ${id} and attempts = ${attempts} and due_at is not null returning pg_notify(${WEBHOOK_DELIVERIES}, '')`)
}

/** Milliseconds until the next delivery that is not due yet, or nothing. */
export async function nextDelivery(db: Db): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as ms
      from webhook_delivery where due_at > (select clock_timestamp())`)
  return row?.ms ?? undefined
}

/** The row that a delivery is about, with the types that its table has now. */
export async function subjectOf(
  { event, subject }: Pick<WebhookDelivery, 'event' | 'subject'>,
  db: Db,
): Promise<object> {
  const row = JSON.stringify(subject)
  switch (event.split('.')[0]) {
    case 'operation':
      return (await db.row<object>(sql`select * from jsonb_populate_record(null::operation, ${row}::jsonb)`)) ?? {}
    case 'endpoint':
      return (await db.row<object>(sql`select * from jsonb_populate_record(null::endpoint, ${row}::jsonb)`)) ?? {}
    case 'branch':
      return (await db.row<object>(sql`select * from jsonb_populate_record(null::branch, ${row}::jsonb)`)) ?? {}
    default:
      return subject
  }
}

export async function forgetDeliveries(db: Db, days: number): Promise<void> {
  await db.rows(
    sql`delete from webhook_delivery where occurred_at < clock_timestamp() - make_interval(days => ${days})`,
  )
}
