import type { Db } from './catalog.ts'
import { COMPUTE_COLUMNS, type ComputeColumns } from './compute.ts'
import { sql } from './sql.ts'

export type EndpointState = 'init' | 'active' | 'idle'

/** The provisioners that clients may name, without a difference; the first is the default. */
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
  /** The size that its compute has now; the lower limit while none runs. */
  readonly cu: number
  /** The size that its compute is to have, as long as its host has less room; null: it has it. */
  readonly wanted_cu: number | null
  /** Why its compute is not held to that size; null: it is, or none runs. */
  readonly limit_error: string | null
  /** Why its compute accepts no writes by default; null: it accepts them. */
  readonly writes_refused: 'branch_size' | 'host_disk' | null
  readonly suspend_timeout_seconds: number
  /** As given by users; a compute uses only `pg_settings`. */
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
  /** The instance id of its compute, while one runs. */
  readonly compute_id: string | null
  readonly started_at: string | null
  readonly suspended_at: string | null
  readonly last_active: string | null
  readonly idle_check_at: string | null
  readonly idle_counters: string | null
  readonly idle_since: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly deleted_at: string | null
  /** It was deleted with its branch, and can be recovered with it (branch_recovery.ts). */
  readonly recoverable: boolean
}

/** The settings and the provisioner of an endpoint, with defaults for missing ones. */
export function settingsWithDefaults({ settings: kept }: Pick<Endpoint, 'settings'>) {
  const { provisioner = PROVISIONERS[0], pg_settings = {}, ...settings } = kept
  return { provisioner, settings: { pg_settings, ...settings } }
}

/** The attributes of an endpoint that users see. */
export type ShownEndpoint = Omit<
  Endpoint,
  | 'account_id'
  | 'holding_operation_id'
  | 'compute_id'
  | `idle_${'check_at' | 'counters' | 'since'}`
  | 'deleted_at'
  | 'recoverable'
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
    insert into endpoint (id, account_id, project_id, branch_id, name, min_cu, max_cu, cu, suspend_timeout_seconds,
                          settings, disabled, pooler_enabled, passwordless_access)
    values (${endpoint.id}, ${endpoint.account_id}, ${endpoint.project_id}, ${endpoint.branch_id}, ${endpoint.name},
            ${endpoint.min_cu}, ${endpoint.max_cu}, ${endpoint.min_cu}, ${endpoint.suspend_timeout_seconds},
            ${JSON.stringify(endpoint.settings)}, ${endpoint.disabled},
            ${endpoint.pooler_enabled ?? false}, ${endpoint.passwordless_access ?? false})
    returning *`)
  return row as Endpoint
}

/** An endpoint with the address of its compute, while one runs. */
export interface PlacedEndpoint extends Endpoint, ComputeColumns {}

const SELECT_PLACED = sql`select e.*, ${COMPUTE_COLUMNS} from endpoint e left join compute c on c.id = e.compute_id`

/**
 * Finds an endpoint by its id alone, for the proxy and the worker. Returns undefined when it or its project is deleted.
 */
export function findEndpoint(db: Db, id: string): Promise<PlacedEndpoint | undefined> {
  return db.row(sql`
    select e.*, ${COMPUTE_COLUMNS}
      from endpoint e join project p on p.id = e.project_id left join compute c on c.id = e.compute_id
     where e.id = ${id} and e.deleted_at is null and p.deleted_at is null`)
}

/** For the worker: also finds an endpoint that was deleted while its compute ran. */
export function findEndpointEver(db: Db, id: string): Promise<Endpoint | undefined> {
  return db.row(sql`select * from endpoint where id = ${id}`)
}

export function findProjectEndpoint(db: Db, projectId: string, id: string): Promise<Endpoint | undefined> {
  return db.row(sql`select * from endpoint where id = ${id} and project_id = ${projectId} and deleted_at is null`)
}

export function findBranchEndpoint(db: Db, branchId: string): Promise<PlacedEndpoint | undefined> {
  return db.row(sql`${SELECT_PLACED} where e.branch_id = ${branchId} and e.deleted_at is null`)
}

/** Selects only the attributes that users see: clients poll this query. */
export function listEndpoints(
  db: Db,
  accountId: string,
  projectId: string,
  branchIds?: readonly string[],
): Promise<ShownEndpoint[]> {
  const ofBranches = branchIds === undefined ? sql`` : sql`and branch_id = any (${branchIds}::text[])`
  return db.rows(sql`
    select id, project_id, branch_id, name, min_cu, max_cu, cu, wanted_cu, limit_error, writes_refused,
           suspend_timeout_seconds, settings, pooler_enabled, disabled, passwordless_access, creation_source,
           current_state, pending_state, started_at, suspended_at, last_active, created_at, updated_at
      from endpoint where project_id = ${projectId} and account_id = ${accountId} and deleted_at is null
       ${ofBranches}
     order by created_at, id`)
}

/** The endpoints of a project that are active or have a pending state. */
export function listWorkingEndpoints(db: Db, projectId: string): Promise<Endpoint[]> {
  return db.rows(sql`
    select * from endpoint
     where project_id = ${projectId} and deleted_at is null and (current_state = 'active' or pending_state is not null)
     order by created_at, id`)
}

/** The attributes of an endpoint that users may change. */
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

/**
 * Changes the given attributes, but not the size of a compute that runs or starts: one that starts is resized when it
 * runs. Makes the idle loop look at an active endpoint at once, so that a changed time-out
 * takes effect.
 */
export async function updateEndpoint(tx: Db, id: string, changes: EndpointChanges): Promise<Endpoint> {
  const settings = changes.settings && JSON.stringify(changes.settings)
  const row = await tx.row<Endpoint>(sql`
    update endpoint set branch_id = coalesce(${changes.branch_id}, branch_id),
           min_cu = coalesce(${changes.min_cu}, min_cu), max_cu = coalesce(${changes.max_cu}, max_cu),
           cu = case when room_host_id is null or waits_since is not null then coalesce(${changes.min_cu}, min_cu)
                     else cu end,
           wanted_cu = case when room_host_id is not null and waits_since is null and compute_id is null
                            then nullif(coalesce(${changes.min_cu}, min_cu), cu) else wanted_cu end,
           settings = coalesce(${settings}::jsonb, settings),
           suspend_timeout_seconds = coalesce(${changes.suspend_timeout_seconds}, suspend_timeout_seconds),
           disabled = coalesce(${changes.disabled}, disabled),
           pooler_enabled = coalesce(${changes.pooler_enabled}, pooler_enabled),
           passwordless_access = coalesce(${changes.passwordless_access}, passwordless_access),
           name = coalesce(${changes.name}, name), updated_at = clock_timestamp(),
           idle_check_at = case when idle_check_at is not null then clock_timestamp() end
     where id = ${id} returning *`)
  return row as Endpoint
}

/**
 * Every endpoint of all accounts that may have a compute, on all hosts or on one: for adoption and status.
 */
export function listEndpointsWithCompute(db: Db, hostId?: string): Promise<PlacedEndpoint[]> {
  return db.rows(sql`
    ${SELECT_PLACED} join branch b on b.id = e.branch_id join store s on s.id = b.store_id
     where (e.current_state = 'active' or e.pending_state = 'active' or e.compute_id is not null)
       and (${hostId}::text is null or coalesce(c.host_id, s.host_id) = ${hostId}) order by e.created_at`)
}

/**
 * The endpoints of a host to be suspended at its shutdown: those with a compute, and those whose start is due. A start
 * behind other operations goes on after the next start of Neap.
 */
export function listEndpointsToSuspend(db: Db, hostId: string): Promise<PlacedEndpoint[]> {
  return db.rows(sql`
    ${SELECT_PLACED} join branch b on b.id = e.branch_id join store s on s.id = b.store_id
     where (e.current_state = 'active' or e.compute_id is not null
            or e.pending_state = 'active' and exists (
                 select from operation o
                  where o.endpoint_id = e.id and o.project_id = e.project_id and o.finished_at is null
                    and o.behind is null))
       and coalesce(c.host_id, s.host_id) = ${hostId} order by e.created_at`)
}

/**
 * Paused or deleted endpoints without an unfinished operation, whose branch is stored on this host or nowhere. Not
 * those that can be recovered and have no compute.
 */
export function listStrandedEndpoints(db: Db, hostId: string): Promise<Endpoint[]> {
  return db.rows(sql`
    select e.* from endpoint e join branch b on b.id = e.branch_id left join store s on s.id = b.store_id
     where (e.holding_operation_id is not null
            or e.deleted_at is not null and (not e.recoverable or e.compute_id is not null))
       and coalesce(s.host_id, ${hostId}) = ${hostId}
       and not exists (select 1 from operation o
                        where o.project_id = e.project_id and o.finished_at is null
                          and (o.branch_id = e.branch_id or o.endpoint_id = e.id))`)
}

/**
 * Locks an endpoint's row, deleted or not, until the transaction ends. A decision based on an endpoint and its
 * operations takes this lock first: operations cannot end meanwhile, so both are read in one consistent state. Lock
 * order: project, branch, endpoint.
 */
export function lockEndpoint(tx: Db, id: string): Promise<Endpoint | undefined> {
  return tx.row(sql`select * from endpoint where id = ${id} for no key update`)
}

/**
 * Recomputes `pending_state`. Triggers on operations do so as well; needed when a check continues after its endpoint
 * became idle.
 */
export async function settlePending(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`select settle_pending(${id})`)
}

/** Records that a compute of an endpoint is held to its size, or (a reason) that it is not. */
export async function setLimitError(db: Db, id: string, computeId: string, error: string | null): Promise<void> {
  await db.rows(sql`update endpoint set limit_error = ${error} where id = ${id} and compute_id = ${computeId}`)
}

/** Makes proxies pause traffic to this endpoint, or (null) resume it. */
export async function setPause(tx: Db, id: string, operationId: string | null): Promise<void> {
  await tx.rows(sql`update endpoint set holding_operation_id = ${operationId} where id = ${id}`)
}

/**
 * Records when proxies last saw bytes of these endpoints (milliseconds since 1970). Skips rows locked by other
 * transactions and returns their ids, for a retry.
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
    select e.id from endpoint e join seen using (id)
     where e.deleted_at is null and e.id not in (select id from locked)`)
  return rows.map(({ id }) => id)
}

/**
 * Claims active endpoints with computes on this host that are due for a look of the idle loop. Other workers skip them
 * for 10 seconds.
 */
export function takeIdleChecks(
  db: Db,
  hostId: string,
): Promise<(PlacedEndpoint & { readonly quiet_seconds: number; readonly idle_seconds: number })[]> {
  return db.rows(sql`
    update endpoint e set idle_check_at = clock_timestamp() + interval '10 seconds' from compute c
     where c.id = e.compute_id and e.id in (
       select due.id from endpoint due join compute on compute.id = due.compute_id and compute.host_id = ${hostId}
        where due.idle_check_at <= statement_timestamp() and due.current_state = 'active' and due.deleted_at is null
        order by due.idle_check_at limit 50 for update of due skip locked)
    returning e.*, ${COMPUTE_COLUMNS},
              extract(epoch from clock_timestamp() - last_active)::float8 as quiet_seconds,
              extract(epoch from clock_timestamp() - greatest(idle_since, last_active))::float8 as idle_seconds`)
}

/**
 * Records the result of a look: the counters, the seconds of idleness, and the seconds until the next look. Returns
 * false, without a change, when the time-out was changed since the claim, or the compute stopped or started.
 */
export async function setIdleCheck(
  db: Db,
  taken: Pick<Endpoint, 'id' | 'idle_check_at'>,
  check: { counters: string | null; idleSeconds: number; nextSeconds: number },
): Promise<boolean> {
  // Each change that requires another look sets `idle_check_at`.
  const row = await db.row(sql`
    update endpoint set idle_counters = ${check.counters},
           idle_since = clock_timestamp() - make_interval(secs => ${check.idleSeconds}),
           idle_check_at = clock_timestamp() + make_interval(secs => ${check.nextSeconds})
     where id = ${taken.id} and idle_check_at = ${taken.idle_check_at}::timestamptz and current_state = 'active'
    returning 1`)
  return row !== undefined
}

/**
 * The catalog's time, and the seconds since the last known use of an active endpoint, as seen by proxies and the idle
 * loop.
 */
export async function readIdleSeconds(db: Db, id: string): Promise<{ now: string; seconds: number } | undefined> {
  return db.row(sql`
    select clock_timestamp() as now,
           greatest(extract(epoch from clock_timestamp() - greatest(idle_since, last_active)), 0)::float8 as seconds
      from endpoint where id = ${id} and current_state = 'active'`)
}

/** Milliseconds until the next look at a compute of this host. Returns undefined when none is active. */
export async function nextIdleCheck(db: Db, hostId: string): Promise<number | undefined> {
  const row = await db.row<{ ms: number | null }>(sql`
    select extract(epoch from e.idle_check_at - clock_timestamp())::float8 * 1000 as ms
      from endpoint e join compute c on c.id = e.compute_id and c.host_id = ${hostId}
     where e.current_state = 'active' and e.deleted_at is null order by e.idle_check_at limit 1`)
  return row?.ms ?? undefined
}

/** Removes the row of a deleted endpoint, once its compute has stopped; not of one that can be recovered. */
export async function deleteEndpointRow(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`delete from endpoint where id = ${id} and deleted_at is not null and not recoverable`)
}

export async function markEndpointDeleted(tx: Db, id: string): Promise<void> {
  await tx.rows(
    sql`update endpoint set deleted_at = clock_timestamp(), updated_at = clock_timestamp() where id = ${id}`,
  )
}
