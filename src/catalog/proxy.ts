import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** First key of the session advisory lock that a living proxy holds; the second is its number. */
const LOCK_CLASS = 7301

/** A proxy that has said nothing for so long is taken for dead: its session ends, and with it its lock. */
const FROZEN_SECONDS = 15

export interface ProxyHold {
  readonly proxy_number: number
  readonly woken: boolean
}

/** An endpoint as far as holding goes: the operation that asks for it, if any, and the process its sessions are with. */
export interface EndpointHold {
  readonly id: string
  readonly holding_operation_id: string | null
  readonly compute_pid: number | null
}

/**
 * Registers a proxy on a session of its own and answers its number. Row and lock appear together, so that no other
 * registration takes the row for a dead one's; the session's end is the proxy's death.
 */
export async function registerProxy(session: Db): Promise<number> {
  await session.rows(sql`select set_config('idle_session_timeout', ${`${FROZEN_SECONDS}s`}, false)`)
  const row = await session.row<{ number: number }>(sql`
    with registered as (insert into proxy default values returning number)
    select number, pg_advisory_lock(${LOCK_CLASS}::int, number) from registered`)
  if (!row) throw new Error('the registration answered no number')
  await session.rows(sql`
    delete from proxy where number <> ${row.number} and number not in (
      select objid::int8::int from pg_locks
       where locktype = 'advisory' and classid = ${LOCK_CLASS}::int8::oid and objsubid = 2 and granted
         and database = (select oid from pg_database where datname = current_database()))`)
  return row.number
}

export async function unregisterProxy(session: Db, number: number): Promise<void> {
  await session.rows(sql`delete from proxy where number = ${number}`)
}

/** Says on its session that a proxy lives: one that is frozen does not, and is not waited for after `FROZEN_SECONDS`. */
export async function confirmProxy(session: Db): Promise<void> {
  await session.rows(sql`select 1`)
}

export interface RegisteredProxy {
  readonly number: number
  /** Its session holds its lock (Postgres manual, "pg_locks"). One that lost its session may be about to register again. */
  readonly lives: boolean
}

export function registeredProxies(db: Db): Promise<RegisteredProxy[]> {
  return db.rows(sql`
    select number, number in (
             select objid::int8::int from pg_locks
              where locktype = 'advisory' and classid = ${LOCK_CLASS}::int8::oid and objsubid = 2 and granted
                and database = (select oid from pg_database where datname = current_database())) as lives
      from proxy`)
}

/** The channel on which proxies ask each other to close an endpoint's pooled sessions that are at rest, by its id. */
export const CLOSE_IDLE = 'close_idle'

/** Asks all proxies, this one too. */
export async function askToCloseIdle(db: Db, endpointId: string): Promise<void> {
  await db.rows(sql`select pg_notify(${CLOSE_IDLE}, ${endpointId})`)
}

/** How many proxies hold their lock. */
export async function livingProxies(db: Db): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*) from pg_locks
     where locktype = 'advisory' and classid = ${LOCK_CLASS}::int8::oid and objsubid = 2 and granted
       and database = (select oid from pg_database where datname = current_database())`)
  return row?.count ?? 0
}

/** Forgets proxies that are dead. */
export async function forgetProxies(db: Db, numbers: readonly number[]): Promise<void> {
  await db.rows(sql`delete from proxy where number = any (${numbers}::int[])`)
}

/** Which proxies hold back what they would forward for this operation, and where something wants through. */
export function holdsOf(db: Db, operationId: string): Promise<ProxyHold[]> {
  return db.rows(sql`select proxy_number, woken from proxy_hold where operation_id = ${operationId}`)
}

/** Says that this proxy holds for that operation. What has once woken stays woken. */
export async function recordHold(db: Db, operationId: string, proxyNumber: number, woken: boolean): Promise<void> {
  await db.rows(sql`
    insert into proxy_hold (operation_id, proxy_number, woken) values (${operationId}, ${proxyNumber}, ${woken})
    on conflict (operation_id, proxy_number) do update set woken = proxy_hold.woken or excluded.woken`)
}

/** What these endpoints ask of the proxies, deleted ones too: their sessions last until their compute has stopped. */
export function readHoldings(db: Db, endpointIds: readonly string[]): Promise<EndpointHold[]> {
  return db.rows(
    sql`select id, holding_operation_id, compute_pid from endpoint where id = any (${endpointIds}::text[])`,
  )
}

/** The ids of all endpoints for which something is to be held. */
export async function listHolding(db: Db): Promise<string[]> {
  const rows = await db.rows<{ id: string }>(sql`select id from endpoint where holding_operation_id is not null`)
  return rows.map((row) => row.id)
}

/** Removes holds for operations that have ended. */
export async function forgetOldHolds(db: Db): Promise<void> {
  await db.rows(sql`
    delete from proxy_hold h using operation o where o.id = h.operation_id and o.finished_at is not null`)
}
