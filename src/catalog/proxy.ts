import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { PROXY_LOCK_CLASS } from './advisory_locks.ts'
import { sql } from './sql.ts'

/** The locks that live proxies hold (Postgres manual, "pg_locks"). */
const HELD_LOCKS = sql`
  pg_locks where locktype = 'advisory' and classid = ${PROXY_LOCK_CLASS}::int8::oid and objsubid = 2 and granted
             and database = (select oid from pg_database where datname = current_database())`

const LIVING_NUMBERS = sql`select objid::int8::int from ${HELD_LOCKS}`

/** A proxy silent for so many seconds counts as dead: its session ends, and with it its lock. */
const FROZEN_SECONDS = 15

export interface ProxyPause {
  readonly proxy_number: number
  readonly woken: boolean
}

/**
 * The pause state of an endpoint: the operation that requested the pause, if any, the compute that its sessions are
 * with, and whether that refuses writes.
 */
export interface EndpointPause {
  readonly id: string
  readonly holding_operation_id: string | null
  readonly compute_id: string | null
  /** Whether it or its project was deleted; its compute may still run. */
  readonly is_deleted: boolean
  /** Why its compute refuses writes. */
  readonly writes_refused: Endpoint['writes_refused']
}

/**
 * Registers a proxy on a dedicated session and returns its number. Row and lock become visible together, so that no
 * other registration deletes the row as a dead proxy's. The end of the session counts as the proxy's death.
 */
export async function registerProxy(session: Db): Promise<number> {
  await session.rows(sql`select set_config('idle_session_timeout', ${`${FROZEN_SECONDS}s`}, false)`)
  const row = await session.row<{ number: number }>(sql`
    with registered as (insert into proxy default values returning number)
    select number, pg_advisory_lock(${PROXY_LOCK_CLASS}::int, number) from registered`)
  if (!row) throw new Error('the registration answered no number')
  await session.rows(sql`
    delete from proxy where number <> ${row.number} and number not in (${LIVING_NUMBERS})`)
  return row.number
}

export async function unregisterProxy(session: Db, number: number): Promise<void> {
  await session.rows(sql`delete from proxy where number = ${number}`)
}

/** Keeps the proxy's session alive. A frozen proxy does not call this, and is not waited for after `FROZEN_SECONDS`. */
export async function confirmProxy(session: Db): Promise<void> {
  await session.rows(sql`select 1`)
}

export interface RegisteredProxy {
  readonly number: number
  /** Whether its session holds its lock. A proxy that lost its session may be about to register again. */
  readonly lives: boolean
}

export function registeredProxies(db: Db): Promise<RegisteredProxy[]> {
  return db.rows(sql`select number, number in (${LIVING_NUMBERS}) as lives from proxy`)
}

/** The channel that makes proxies close an endpoint's idle pooled sessions; the payload is its id. */
export const CLOSE_IDLE = 'close_idle'

/** Asks all proxies, including this one, to close them. */
export async function askToCloseIdle(db: Db, endpointId: string): Promise<void> {
  await db.rows(sql`select pg_notify(${CLOSE_IDLE}, ${endpointId})`)
}

/** The number of proxies that hold their lock. */
export async function livingProxies(db: Db): Promise<number> {
  const row = await db.row<{ count: number }>(sql`select count(*) from ${HELD_LOCKS}`)
  return row?.count ?? 0
}

/** Removes dead proxies. */
export async function deleteProxies(db: Db, numbers: readonly number[]): Promise<void> {
  await db.rows(sql`delete from proxy where number = any (${numbers}::int[])`)
}

/** The proxies that have paused for this operation, and whether clients have sent bytes since. */
export function pausesOf(db: Db, operationId: string): Promise<ProxyPause[]> {
  return db.rows(sql`select proxy_number, woken from proxy_hold where operation_id = ${operationId}`)
}

/** Records that this proxy has paused for that operation. `woken` is never reset. */
export async function recordPause(db: Db, operationId: string, proxyNumber: number, woken: boolean): Promise<void> {
  await db.rows(sql`
    insert into proxy_hold (operation_id, proxy_number, woken) values (${operationId}, ${proxyNumber}, ${woken})
    on conflict (operation_id, proxy_number) do update set woken = proxy_hold.woken or excluded.woken`)
}

/** The pause states of these endpoints, including deleted ones. */
export function readPauses(db: Db, endpointIds: readonly string[]): Promise<EndpointPause[]> {
  return db.rows(sql`
    select e.id, e.holding_operation_id, e.compute_id, e.writes_refused,
           e.deleted_at is not null or p.deleted_at is not null as is_deleted
      from endpoint e join project p on p.id = e.project_id where e.id = any (${endpointIds}::text[])`)
}

/** The ids of all endpoints that are paused or refuse writes. */
export async function listPaused(db: Db): Promise<string[]> {
  const rows = await db.rows<{ id: string }>(sql`
    select id from endpoint where holding_operation_id is not null
    union select id from endpoint where writes_refused is not null`)
  return rows.map((row) => row.id)
}

/** Removes up to `limit` rows of ended operations. Returns how many it removed. */
export async function expirePauses(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from proxy_hold where (operation_id, proxy_number) in (
      select h.operation_id, h.proxy_number from proxy_hold h join operation o on o.id = h.operation_id
       where o.finished_at is not null limit ${limit} for update of h skip locked)
    returning 1`)
  return rows.length
}
