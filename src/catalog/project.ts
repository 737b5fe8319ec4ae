import type { Db } from './catalog.ts'
import type { PreloadLibraries } from './endpoint.ts'
import { matchesSearch } from './search.ts'
import { sql } from './sql.ts'

export interface Project {
  readonly id: string
  readonly account_id: string
  readonly name: string
  readonly region_id: string
  readonly pg_version: number
  readonly settings: ProjectSettings
  readonly default_endpoint_settings: EndpointDefaults
  readonly history_retention_seconds: number
  readonly created_at: string
  readonly updated_at: string
  readonly deleted_at: string | null
  readonly recoverable_until: string | null
}

/** As requested by users. */
export interface ProjectSettings {
  readonly enable_logical_replication?: boolean
  readonly enable_egress?: boolean
  /** New branches expire after so long, unless their request says otherwise; 0: they do not. */
  readonly branch_ttl_seconds?: number
  readonly allowed_ips?: { readonly ips?: string[]; readonly protected_branches_only?: boolean }
  readonly block_public_connections?: boolean
  readonly block_vpc_connections?: boolean
  readonly hipaa?: boolean
  readonly quota?: Record<string, number>
  readonly maintenance_window?: {
    readonly weekdays: number[]
    readonly start_time: string
    readonly end_time: string
  }
  readonly preload_libraries?: PreloadLibraries
}

export interface EndpointDefaults {
  /** The provisioner requested at the project's creation; `PROVISIONERS[0]` if absent. */
  readonly provisioner?: string
  readonly autoscaling_limit_min_cu?: number
  readonly autoscaling_limit_max_cu?: number
  readonly suspend_timeout_seconds?: number
  readonly pg_settings?: Record<string, string>
  readonly pgbouncer_settings?: Record<string, string>
}

export async function insertProject(
  tx: Db,
  project: Pick<
    Project,
    | 'id'
    | 'account_id'
    | 'name'
    | 'region_id'
    | 'pg_version'
    | 'settings'
    | 'default_endpoint_settings'
    | 'history_retention_seconds'
  >,
): Promise<Project> {
  const row = await tx.row<Project>(sql`
    insert into project (id, account_id, name, region_id, pg_version, settings, default_endpoint_settings,
                         history_retention_seconds)
    values (${project.id}, ${project.account_id}, ${project.name}, ${project.region_id}, ${project.pg_version},
            ${JSON.stringify(project.settings)}, ${JSON.stringify(project.default_endpoint_settings)},
            ${project.history_retention_seconds})
    returning *`)
  return row as Project
}

export function findProject(db: Db, accountId: string, id: string): Promise<Project | undefined> {
  return db.row(sql`select * from project where id = ${id} and account_id = ${accountId} and deleted_at is null`)
}

/** Those of these projects that an account has. */
export function findProjects(db: Db, accountId: string, ids: readonly string[]): Promise<Pick<Project, 'id'>[]> {
  return db.rows(sql`
    select id from project where id = any (${ids}::text[]) and account_id = ${accountId}`)
}

/** A page of an account's projects, with deleted ones until they are forgotten: what they used counts. */
export function listProjectsEver(
  db: Db,
  accountId: string,
  limit: number,
  cursor: string | undefined,
  only: string | null = null,
): Promise<Pick<Project, 'id'>[]> {
  return db.rows(sql`
    select id from project where account_id = ${accountId} and ${pageById(cursor, only, limit)}`)
}

/** Also finds a deleted project, whose operations can still be read. */
export function findProjectEver(db: Db, accountId: string, id: string): Promise<Project | undefined> {
  return db.row(sql`select * from project where id = ${id} and account_id = ${accountId}`)
}

/**
 * Locks the project's row; every transaction that inserts operations takes this lock first. Returns undefined when it
 * is deleted.
 */
export function lockProject(tx: Db, accountId: string, id: string): Promise<Project | undefined> {
  return tx.row(
    sql`select * from project where id = ${id} and account_id = ${accountId} and deleted_at is null for no key update`,
  )
}

/**
 * As `lockProject`, for work on what a deleted project has left as well. Returns the `seq` of its last operation.
 */
export async function lockProjectEver(tx: Db, id: string): Promise<number | undefined> {
  const row = await tx.row<{ last_seq: number }>(sql`select last_seq from project where id = ${id} for no key update`)
  return row?.last_seq
}

/** The `seq` of the last operation that a project has queued. */
export async function lastSeqOf(db: Db, id: string): Promise<number | undefined> {
  const row = await db.row<{ last_seq: number }>(sql`select last_seq from project where id = ${id}`)
  return row?.last_seq
}

/**
 * Locks an endpoint and its project, for callers that know only the endpoint. Workers' changes to the endpoint wait, so
 * the endpoint and its operations are read in one consistent state.
 */
export async function lockEndpointAndProject(tx: Db, endpointId: string): Promise<void> {
  await tx.rows(sql`
    select 1 from project p join endpoint e on e.project_id = p.id
     where e.id = ${endpointId} for no key update of p, e`)
}

/** The number of an account's projects, counted up to `most`. */
export async function countProjects(db: Db, accountId: string, most: number): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count
      from (select 1 from project where account_id = ${accountId} and deleted_at is null limit ${most}) counted`)
  return row?.count ?? 0
}

/** Changes the given attributes. */
export async function updateProject(
  tx: Db,
  id: string,
  changes: {
    readonly [Field in 'name' | 'settings' | 'default_endpoint_settings' | 'history_retention_seconds']:
      | Project[Field]
      | undefined
  },
): Promise<Project> {
  const json = (value: object | undefined) => value && JSON.stringify(value)
  const row = await tx.row<Project>(sql`
    update project set name = coalesce(${changes.name}, name),
           settings = coalesce(${json(changes.settings)}::jsonb, settings),
           default_endpoint_settings =
             coalesce(${json(changes.default_endpoint_settings)}::jsonb, default_endpoint_settings),
           history_retention_seconds = coalesce(${changes.history_retention_seconds}, history_retention_seconds),
           updated_at = clock_timestamp()
     where id = ${id} returning *`)
  return row as Project
}

const pageById = (cursor: string | undefined, only: string | null, limit: number) =>
  sql`id > coalesce(${cursor}, '') and id = coalesce(${only}, id) order by id limit ${limit}`

/** A page of an account's projects in order of id, after the id `cursor`; with `only`, just that project. */
export function listProjects(
  db: Db,
  accountId: string,
  limit: number,
  cursor: string | undefined,
  search: string | undefined,
  only: string | null = null,
): Promise<Project[]> {
  return db.rows(sql`
    select * from project where account_id = ${accountId} and deleted_at is null and ${matchesSearch(search)}
       and ${pageById(cursor, only, limit)}`)
}

/** A page of an account's deleted projects that can still be recovered. */
export function listRecoverable(
  db: Db,
  accountId: string,
  limit: number,
  cursor: string | undefined,
  only: string | null = null,
): Promise<Project[]> {
  return db.rows(sql`
    select * from project where account_id = ${accountId} and recoverable_until > clock_timestamp()
       and ${pageById(cursor, only, limit)}`)
}

/**
 * Deletes a project but keeps its data for so many hours. Its branches and endpoints stay unchanged but are
 * unreachable.
 */
export async function deleteProjectFor(tx: Db, id: string, hours: number): Promise<void> {
  await tx.rows(sql`
    update project set deleted_at = clock_timestamp(), updated_at = clock_timestamp(),
           recoverable_until = clock_timestamp() + make_interval(hours => ${hours}) where id = ${id}`)
}

/** Undoes a deletion. Returns undefined when the project cannot be recovered any more. */
export function recoverProject(tx: Db, accountId: string, id: string): Promise<Project | undefined> {
  return tx.row(sql`
    update project set deleted_at = null, recoverable_until = null, updated_at = clock_timestamp()
     where id = ${id} and account_id = ${accountId} and recoverable_until > clock_timestamp() returning *`)
}

/** Deletes a project permanently, with its branches and endpoints. */
export async function deleteProject(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`
    update project set deleted_at = coalesce(deleted_at, clock_timestamp()), recoverable_until = null,
           updated_at = clock_timestamp()
     where id = ${id} and (deleted_at is null or recoverable_until is not null)`)
  await tx.rows(sql`update branch set deleted_at = clock_timestamp() where project_id = ${id} and deleted_at is null`)
  await tx.rows(sql`update endpoint set deleted_at = clock_timestamp() where project_id = ${id} and deleted_at is null`)
}

/** Whether a project's settings ask for logical replication. */
export async function wantsReplication(db: Db, projectId: string): Promise<boolean> {
  const row = await db.row<{ wanted: boolean }>(sql`
    select coalesce((settings ->> 'enable_logical_replication')::boolean, false) as wanted
      from project where id = ${projectId}`)
  return row?.wanted ?? false
}
