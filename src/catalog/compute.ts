import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/** Where a compute is reached, as libpq takes it: an address, or a socket directory that begins with a slash. */
export interface ComputeLocation {
  readonly host: string
  readonly port: number
  /** The id of the store that it serves. */
  readonly store: string
}

/** A compute that serves an endpoint. `id` tells this run of Postgres from any other on the same store. */
export interface NewCompute extends ComputeLocation {
  readonly id: string
  readonly hostId: string
  readonly startedAt: Date
}

/** The columns of a compute beside those of its endpoint; null while none runs. */
export interface ComputeColumns {
  readonly compute_address: string | null
  readonly compute_port: number | null
  readonly compute_store_id: string | null
}

/** Selects the ComputeColumns of a compute `c`. */
export const COMPUTE_COLUMNS = sql`
  c.address as compute_address, c.port as compute_port, c.store_id as compute_store_id`

/**
 * How a compute ended: stopped for that reason, replaced by a restart, or ended by itself. `replaced`: a start found it
 * gone, and why it ended is not on record yet.
 */
export type EndReason =
  | 'idle'
  | 'request'
  | 'shutdown'
  | 'delete'
  | 'move'
  | 'restore'
  | 'restart'
  | 'replaced'
  | 'start_failed'
  | 'crash'

/** The address of a compute, sent to proxies before the commit that makes its endpoint active. */
export interface ComputeAnnouncement extends ComputeLocation {
  readonly endpoint_id: string
  readonly id: string
}

/** The channel of announcements; the payload is a ComputeAnnouncement as JSON. */
export const ANNOUNCEMENTS = 'compute'

/** The attributes of an endpoint needed to connect to its compute. */
export type ConnectTarget = Pick<Endpoint, 'current_state' | 'compute_id' | 'holding_operation_id'> & ComputeColumns

/** The address of an endpoint's compute. Returns undefined when the catalog knows of no compute. */
export function computeAddress(endpoint: ComputeColumns): ComputeLocation | undefined {
  const { compute_address: host, compute_port: port, compute_store_id: store } = endpoint
  return host === null || port === null || store === null ? undefined : { host, port, store }
}

/** Notifies proxies that a compute accepts connections, so that they connect before its start has completed. */
export async function announceCompute(db: Db, announcement: ComputeAnnouncement): Promise<void> {
  await db.rows(sql`select pg_notify(${ANNOUNCEMENTS}, ${JSON.stringify(announcement)})`)
}

/** The stores of the computes that run, with their addresses. */
export function runningStores(db: Db): Promise<{ id: string; socketDir: string }[]> {
  return db.rows(sql`select store_id as id, address as "socketDir" from compute where ended_at is null`)
}

/** A compute that the catalog takes for running. */
export interface FollowedCompute {
  readonly id: string
  readonly endpoint_id: string
  readonly store_id: string
  readonly host_id: string
}

/** The compute of an endpoint, deleted or not. */
export function findEndpointCompute(db: Db, endpointId: string): Promise<FollowedCompute | undefined> {
  return db.row(sql`
    select c.id, c.endpoint_id, c.store_id, c.host_id from endpoint e join compute c on c.id = e.compute_id
     where e.id = ${endpointId}`)
}

/** The computes of a host. */
export function listComputes(db: Db, hostId: string): Promise<FollowedCompute[]> {
  return db.rows(sql`
    select id, endpoint_id, store_id, host_id from compute where host_id = ${hostId} and ended_at is null`)
}

/**
 * Makes an endpoint active, with this compute, and ends a pause. The idle loop looks at it at once. Returns false,
 * without a change to the endpoint, when that has moved to another branch meanwhile.
 * @param more.limitError why the compute is not held to its size
 * @param more.replaces how the compute that it had before has ended, if it is another
 */
export async function setActive(
  tx: Db,
  id: string,
  branchId: string,
  compute: NewCompute,
  {
    limitError,
    replaces = 'restart',
  }: { readonly limitError?: string | undefined; readonly replaces?: EndReason } = {},
): Promise<boolean> {
  const row = await tx.row(sql`
    with replaced as (
      update compute set ended_at = clock_timestamp(), end_reason = ${replaces}
       where endpoint_id = ${id} and ended_at is null and id <> ${compute.id}),
    started as (
      insert into compute (id, endpoint_id, store_id, host_id, address, port, started_at)
      values (${compute.id}, ${id}, ${compute.store}, ${compute.hostId}, ${compute.host}, ${compute.port},
              ${compute.startedAt})
      on conflict (id) do update set endpoint_id = excluded.endpoint_id, address = excluded.address,
                port = excluded.port, ended_at = null, end_reason = null)
    update endpoint set current_state = 'active', holding_operation_id = null, compute_id = ${compute.id},
           started_at = ${compute.startedAt}, last_active = clock_timestamp(), idle_check_at = clock_timestamp(),
           idle_counters = null, idle_since = clock_timestamp(), limit_error = ${limitError ?? null},
           room_host_id = ${compute.hostId}, waits_since = null, updated_at = clock_timestamp()
     where id = ${id} and branch_id = ${branchId} returning 1`)
  return row !== undefined
}

/** The end of the WAL of a store whose compute was shut down cleanly. */
export interface ComputeEnd {
  readonly storeId: string
  readonly lsn: string
}

/** Makes an endpoint idle, without a compute, and ends a pause. */
export async function setIdle(tx: Db, id: string, reason: EndReason, end?: ComputeEnd): Promise<void> {
  await tx.rows(sql`
    with ended as (
      update compute set ended_at = clock_timestamp(), end_reason = ${reason},
             end_lsn = case when store_id = ${end?.storeId} then ${end?.lsn}::pg_lsn end
       where endpoint_id = ${id} and ended_at is null
      returning store_id),
    unmeasured as (update store set measured_at = null where id in (select store_id from ended))
    update endpoint set current_state = 'idle', holding_operation_id = null, compute_id = null, idle_check_at = null,
           cu = min_cu, wanted_cu = null, limit_error = null, room_host_id = null, waits_since = null,
           suspended_at = clock_timestamp(), updated_at = clock_timestamp(),
           metered_at = case when ${reason} = 'crash' or compute_id is null then metered_at else clock_timestamp() end
     where id = ${id}`)
}

/** Where the WAL of a store ended at the last stop of its endpoint's compute; undefined if that is not known. */
export async function findEndOfWal(db: Db, endpointId: string, storeId: string): Promise<string | undefined> {
  const last = await db.row<{ lsn: string | null }>(sql`
    select case when store_id = ${storeId} and ended_at is not null then end_lsn::text end as lsn
      from compute where endpoint_id = ${endpointId} order by started_at desc limit 1`)
  return last?.lsn ?? undefined
}

/** Records that a compute ended by itself; the state of its endpoint stays, since a start is unfinished. */
export async function noteCrash(tx: Db, endpointId: string, computeId: string): Promise<void> {
  await tx.rows(sql`
    with ended as (
      update compute set ended_at = clock_timestamp(), end_reason = 'crash'
       where id = ${computeId} and ended_at is null)
    update endpoint set compute_id = null, cu = min_cu, wanted_cu = null, limit_error = null
     where id = ${endpointId} and compute_id = ${computeId}`)
}

/** Takes the recording of the end of a replaced compute. Returns its start, or undefined when another has taken it. */
export function takeReplaced(tx: Db, computeId: string): Promise<{ started_at: string } | undefined> {
  return tx.row(sql`
    update compute set end_reason = 'crash' where id = ${computeId} and end_reason = 'replaced' returning started_at`)
}

/** Removes the rows of computes that ended at least `days` ago. */
export async function expireComputes(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from compute where id in (
      select id from compute where ended_at < statement_timestamp() - make_interval(days => ${days})
       order by ended_at limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
