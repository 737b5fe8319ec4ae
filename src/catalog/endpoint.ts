import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

export type EndpointState = 'init' | 'active' | 'idle'

/** The provisioners that clients may name. The name changes nothing; the first is the default. */
export const PROVISIONERS = ['k8s-pod', 'k8s-neonvm', 'serverless-platform'] as const

export interface PreloadLibraries {
  readonly use_defaults?: boolean
  readonly enabled_libraries?: string[]
}

export interface Endpoint {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  readonly branch_id: string
  readonly name: string | null
  readonly min_cu: number
  readonly max_cu: number
  readonly suspend_timeout_seconds: number
  /** What was asked for; of these a compute knows `pg_settings` only. */
  readonly settings: {
    readonly pg_settings?: Record<string, string>
    readonly pgbouncer_settings?: Record<string, string>
    readonly preload_libraries?: PreloadLibraries
    readonly provisioner?: string
  }
  readonly pooler_enabled: boolean
  readonly disabled: boolean
  readonly passwordless_access: boolean
  readonly creation_source: string
  readonly current_state: EndpointState
  readonly pending_state: EndpointState | null
  readonly holding_operation_id: string | null
  readonly compute_host: string | null
  readonly compute_port: number | null
  readonly compute_pid: number | null
  readonly compute_store_id: string | null
  readonly started_at: string | null
  readonly suspended_at: string | null
  readonly last_active: string | null
  readonly idle_check_at: string | null
  readonly idle_counters: string | null
  readonly idle_since: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly deleted_at: string | null
}

/** The settings and the provisioner of an endpoint, with the defaults of those that were not given. */
export function settingsWithDefaults({ settings: kept }: Pick<Endpoint, 'settings'>) {
  const { provisioner = PROVISIONERS[0], pg_settings = {}, ...settings } = kept
  return { provisioner, settings: { pg_settings, ...settings } }
}

/** What users see of an endpoint. */
export type ShownEndpoint = Omit<
  Endpoint,
  | 'account_id'
  | 'holding_operation_id'
  | `compute_${'host' | 'port' | 'pid' | 'store_id'}`
  | `idle_${'check_at' | 'counters' | 'since'}`
  | 'deleted_at'
>

export async function insertEndpoint(
  tx: Db,
  endpoint: Pick<
    Endpoint,
    | 'id'
    | 'account_id'
    | 'project_id'
    | 'branch_id'
    | 'name'
    | 'min_cu'
    | 'max_cu'
    | 'suspend_timeout_seconds'
    | 'settings'
    | 'disabled'
  > &
    Partial<Pick<Endpoint, 'pooler_enabled' | 'passwordless_access'>>,
): Promise<Endpoint> {
  const row = await tx.row<Endpoint>(sql`
    insert into endpoint (id, account_id, project_id, branch_id, name, min_cu, max_cu, suspend_timeout_seconds, settings, disabled, pooler_enabled,
                          passwordless_access)
    values (${endpoint.id}, ${endpoint.account_id}, ${endpoint.project_id}, ${endpoint.branch_id}, ${endpoint.name}, ${endpoint.min_cu},
            ${endpoint.max_cu}, ${endpoint.suspend_timeout_seconds}, ${JSON.stringify(endpoint.settings)}, ${endpoint.disabled},
            ${endpoint.pooler_enabled ?? false}, ${endpoint.passwordless_access ?? false})
    returning *`)
  return row as Endpoint
}

/** By its id alone, as the proxy and the worker know it; a deleted one, or one of a deleted project, is not found. */
export function findEndpoint(db: Db, id: string): Promise<Endpoint | undefined> {
  return db.row(sql`
    select e.* from endpoint e join project p on p.id = e.project_id
     where e.id = ${id} and e.deleted_at is null and p.deleted_at is null`)
}

/** The stores whose computes are known to run. */
export function runningStores(db: Db): Promise<{ id: string; socketDir: string }[]> {
  return db.rows(sql`
    select compute_store_id as id, compute_host as "socketDir" from endpoint where compute_store_id is not null and compute_host is not null`)
}

/** For the worker: also one that was deleted while its compute runs. */
export function findEndpointEver(db: Db, id: string): Promise<Endpoint | undefined> {
  return db.row(sql`select * from endpoint where id = ${id}`)
}

export function findProjectEndpoint(db: Db, projectId: string, id: string): Promise<Endpoint | undefined> {
  return db.row(sql`select * from endpoint where id = ${id} and project_id = ${projectId} and deleted_at is null`)
}

export function findBranchEndpoint(db: Db, branchId: string): Promise<Endpoint | undefined> {
  return db.row(sql`select * from endpoint where branch_id = ${branchId} and deleted_at is null`)
}

/** Only what a reader sees: this is what clients poll. */
export function listEndpoints(db: Db, accountId: string, projectId: string): Promise<ShownEndpoint[]> {
  return db.rows(sql`
    select id, project_id, branch_id, name, min_cu, max_cu, suspend_timeout_seconds, settings, pooler_enabled, disabled,
           passwordless_access, creation_source, current_state, pending_state, started_at, suspended_at, last_active, created_at, updated_at
      from endpoint where project_id = ${projectId} and account_id = ${accountId} and deleted_at is null
     order by created_at, id`)
}

/** The endpoints of a project that have a compute, or are on their way to one. */
export function listWorkingEndpoints(db: Db, projectId: string): Promise<Endpoint[]> {
  return db.rows(sql`
    select * from endpoint
     where project_id = ${projectId} and deleted_at is null and (current_state = 'active' or pending_state is not null)
     order by created_at, id`)
}

/** What users may change of an endpoint. */
export type EndpointChanges = Partial<
  Pick<
    Endpoint,
    | 'branch_id'
    | 'min_cu'
    | 'max_cu'
    | 'suspend_timeout_seconds'
    | 'settings'
    | 'disabled'
    | 'pooler_enabled'
    | 'passwordless_access'
    | 'name'
  >
>

/** Changes what is given and leaves the rest. A changed time-out counts from the next look of the idle loop, which is now. */
export async function updateEndpoint(tx: Db, id: string, changes: EndpointChanges): Promise<Endpoint> {
  const settings = changes.settings && JSON.stringify(changes.settings)
  const row = await tx.row<Endpoint>(sql`
    update endpoint set branch_id = coalesce(${changes.branch_id}, branch_id), min_cu = coalesce(${changes.min_cu}, min_cu),
           max_cu = coalesce(${changes.max_cu}, max_cu), settings = coalesce(${settings}::jsonb, settings),
           suspend_timeout_seconds = coalesce(${changes.suspend_timeout_seconds}, suspend_timeout_seconds),
           disabled = coalesce(${changes.disabled}, disabled), pooler_enabled = coalesce(${changes.pooler_enabled}, pooler_enabled),
           passwordless_access = coalesce(${changes.passwordless_access}, passwordless_access),
           name = coalesce(${changes.name}, name), updated_at = clock_timestamp(),
           idle_check_at = case when idle_check_at is not null then clock_timestamp() end
     where id = ${id} returning *`)
  return row as Endpoint
}

/** Every endpoint that may have a compute, whoever's it is: for adoption, status and shutdown. */
export function listEndpointsWithCompute(db: Db): Promise<Endpoint[]> {
  return db.rows(
    sql`select * from endpoint where current_state = 'active' or pending_state = 'active' or compute_pid is not null order by created_at`,
  )
}

/** Endpoints that are held, or deleted, although no operation is about them. */
export function listStrandedEndpoints(db: Db): Promise<Endpoint[]> {
  return db.rows(sql`
    select * from endpoint e
     where (holding_operation_id is not null or deleted_at is not null)
       and not exists (select 1 from operation o
                        where o.project_id = e.project_id and o.finished_at is null
                          and (o.branch_id = e.branch_id or o.endpoint_id = e.id))`)
}

/**
 * An endpoint, deleted or not, whose row nobody else changes until the transaction ends. Who decides by an endpoint and its operations
 * locks it first: what ends an operation then waits, and both are as of one moment. Locks are taken in the order project, branch, endpoint.
 */
export function lockEndpoint(tx: Db, id: string): Promise<Endpoint | undefined> {
  return tx.row(sql`select * from endpoint where id = ${id} for no key update`)
}

/** Has the catalog say again where an endpoint is on its way to. Operations do so themselves; needed where a check goes on at one that has gone idle. */
export async function settlePending(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`select settle_pending(${id})`)
}

export interface ComputeLocation {
  readonly host: string
  readonly port: number
  /** Which store it serves. */
  readonly store: string
  readonly pid: number
  readonly startedAt: Date
}

/** What proxies are told of a compute ahead of the commit that makes its endpoint active. */
export interface ComputeAnnouncement extends Omit<ComputeLocation, 'startedAt'> {
  readonly endpoint_id: string
}

/** The channel of announcements, each a ComputeAnnouncement as JSON. */
export const ANNOUNCEMENTS = 'compute'

/** What one must know of an endpoint to connect to its compute. */
export type ConnectTarget = Pick<
  Endpoint,
  'current_state' | 'compute_host' | 'compute_port' | 'compute_pid' | 'compute_store_id' | 'holding_operation_id'
>

/** Where the compute of an endpoint is, if the catalog knows of one. */
export function computeAddress(
  endpoint: Pick<Endpoint, 'compute_host' | 'compute_port' | 'compute_store_id'>,
): Pick<ComputeLocation, 'host' | 'port' | 'store'> | undefined {
  const { compute_host: host, compute_port: port, compute_store_id: store } = endpoint
  return host === null || port === null || store === null ? undefined : { host, port, store }
}

/** Tells the proxies at once where a compute accepts connections, so that they connect while the rest of its start is done. */
export async function announceCompute(db: Db, announcement: ComputeAnnouncement): Promise<void> {
  await db.rows(sql`select pg_notify(${ANNOUNCEMENTS}, ${JSON.stringify(announcement)})`)
}

/**
 * The compute answers at this address. The idle loop looks at it when its time-out may first be over. False, and nothing changed, when
 * the endpoint has moved to another branch meanwhile.
 */
export async function setActive(tx: Db, id: string, branchId: string, compute: ComputeLocation): Promise<boolean> {
  const row = await tx.row(sql`
    update endpoint set current_state = 'active', holding_operation_id = null, compute_host = ${compute.host},
           compute_port = ${compute.port}, compute_pid = ${compute.pid}, compute_store_id = ${compute.store}, started_at = ${compute.startedAt}, last_active = clock_timestamp(),
           idle_check_at = clock_timestamp(), idle_counters = null, idle_since = clock_timestamp(), updated_at = clock_timestamp()
     where id = ${id} and branch_id = ${branchId} returning 1`)
  return row !== undefined
}

/** No compute runs. One that never ran stays `init` until it first has. */
export async function setIdle(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`
    update endpoint set current_state = 'idle', holding_operation_id = null, compute_host = null, compute_port = null,
           compute_pid = null, compute_store_id = null, idle_check_at = null, suspended_at = clock_timestamp(), updated_at = clock_timestamp()
     where id = ${id}`)
}

/** This compute is gone, and another is on its way, if it is not there yet. */
export async function forgetCompute(tx: Db, id: string, pid: number): Promise<void> {
  await tx.rows(sql`
    update endpoint set compute_host = null, compute_port = null, compute_pid = null, compute_store_id = null where id = ${id} and compute_pid = ${pid}`)
}

/** Asks the proxies to hold back what they would forward to this endpoint, or (null) to go on. */
export async function setHolding(tx: Db, id: string, operationId: string | null): Promise<void> {
  await tx.rows(sql`update endpoint set holding_operation_id = ${operationId} where id = ${id}`)
}

/**
 * The proxies saw bytes of these endpoints at these times (milliseconds since 1970). Does not wait for whoever has the row of one of
 * them: answers the ids for which this is to be said again.
 */
export async function setLastActive(db: Db, seen: ReadonlyMap<string, number>): Promise<string[]> {
  const rows = await db.rows<{ id: string }>(sql`
    with seen as (select * from unnest(${[...seen.keys()]}::text[], ${[...seen.values()]}::float8[]) s (id, ms)),
    locked as (
      select e.id from endpoint e where e.id in (select id from seen) and e.deleted_at is null order by e.id
         for no key update skip locked),
    written as (
      update endpoint e set last_active = greatest(e.last_active, to_timestamp(s.ms / 1000))
        from seen s where e.id = s.id and e.id in (select id from locked))
    select e.id from endpoint e join seen using (id) where e.deleted_at is null and e.id not in (select id from locked)`)
  return rows.map(({ id }) => id)
}

/**
 * Takes the active endpoints at which it is time to look, so that no other worker looks at them for the next seconds.
 */
export function takeIdleChecks(
  db: Db,
): Promise<(Endpoint & { readonly quiet_seconds: number; readonly idle_seconds: number })[]> {
  return db.rows(sql`
    update endpoint set idle_check_at = clock_timestamp() + interval '10 seconds'
     where id in (select id from endpoint
                   where idle_check_at <= clock_timestamp() and current_state = 'active' and deleted_at is null
                   order by idle_check_at limit 50 for update skip locked)
    returning *, extract(epoch from clock_timestamp() - last_active)::float8 as quiet_seconds,
              extract(epoch from clock_timestamp() - greatest(idle_since, last_active))::float8 as idle_seconds`)
}

/**
 * Notes what a look found: the counters, since how many seconds nothing happened, and in how many to look again. False, and nothing
 * changes, when that is out of date: since the endpoint was taken its time-out was changed, or its compute stopped or started.
 */
export async function setIdleCheck(
  db: Db,
  taken: Pick<Endpoint, 'id' | 'idle_check_at'>,
  check: { counters: string | null; idleSeconds: number; nextSeconds: number },
): Promise<boolean> {
  // Whatever calls for another look sets its time anew.
  const row = await db.row(sql`
    update endpoint set idle_counters = ${check.counters}, idle_since = clock_timestamp() - make_interval(secs => ${check.idleSeconds}),
           idle_check_at = clock_timestamp() + make_interval(secs => ${check.nextSeconds})
     where id = ${taken.id} and idle_check_at = ${taken.idle_check_at}::timestamptz and current_state = 'active' returning 1`)
  return row !== undefined
}

/** The catalog's time, and for how many seconds nobody has used an active endpoint by what proxies and idle loop have seen. */
export async function readIdleSeconds(db: Db, id: string): Promise<{ now: string; seconds: number } | undefined> {
  return db.row(sql`
    select clock_timestamp() as now,
           greatest(extract(epoch from clock_timestamp() - greatest(idle_since, last_active)), 0)::float8 as seconds
      from endpoint where id = ${id} and current_state = 'active'`)
}

/** Milliseconds until the next look, or nothing while no endpoint is active. */
export async function nextIdleCheck(db: Db): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from min(idle_check_at) - clock_timestamp())::float8 * 1000 as ms
      from endpoint where current_state = 'active' and deleted_at is null`)
  return row?.ms ?? undefined
}

/** The row of a deleted endpoint whose compute is stopped. */
export async function deleteEndpointRow(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`delete from endpoint where id = ${id} and deleted_at is not null`)
}

export async function markEndpointDeleted(tx: Db, id: string): Promise<void> {
  await tx.rows(
    sql`update endpoint set deleted_at = clock_timestamp(), updated_at = clock_timestamp() where id = ${id}`,
  )
}
