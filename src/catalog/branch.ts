import type { Db } from './catalog.ts'
import { matchesSearch } from './search.ts'
import { noteProjectSpaceChange } from './space.ts'
import { sql } from './sql.ts'

export interface Branch {
  readonly id: string
  readonly number: number
  readonly account_id: string
  readonly project_id: string
  readonly parent_id: string | null
  readonly name: string
  readonly is_default: boolean
  readonly protected: boolean
  readonly creation_source: string
  readonly current_state: 'init' | 'ready' | 'archived'
  readonly pending_state: 'init' | 'ready' | 'archived' | null
  readonly state_changed_at: string
  readonly config_version: number
  readonly applied_version: number
  /** The store with its data: initially one of its own id; another branch's after a restore. Null once removed. */
  readonly store_id: string | null
  /** The bytes of its databases, without WAL, when its store was last measured. */
  readonly logical_bytes: number | null
  /** For the copy of an unfinished restore: the branch that is to take its data. */
  readonly restores: string | null
  readonly last_reset_at: string | null
  /** The moment of its parent that it was made of, where one was asked for. */
  readonly parent_timestamp: string | null
  readonly parent_lsn: string | null
  /** Of a branch that was made of a snapshot: the snapshot, the branch that it may replace, and whether it did. */
  readonly restored_from: string | null
  readonly restored_as: string | null
  readonly restore_status: 'restored' | 'finalized' | null
  /** Its origin, if that is not all data of its parent. */
  readonly init_source: 'schema-only' | null
  readonly expires_at: string | null
  /** How long after it was set that is. */
  readonly ttl_seconds: number | null
  /** For how long its moments stay within reach; null: as long as its project says. */
  readonly history_retention_seconds: number | null
  /** Annotations of clients, as given. */
  readonly annotation: Record<string, string>
  readonly created_at: string
  readonly updated_at: string
  readonly deleted_at: string | null
  /** Of a deleted branch: until when its data is kept for a recovery (branch_recovery.ts); null: it is removed. */
  readonly recoverable_until: string | null
  readonly deletion_method: 'user' | 'ttl' | null
  /** Of an anonymized branch: how far that is (masking.ts); null of all others. */
  readonly masking_state: 'initialized' | 'anonymizing' | 'anonymized' | 'error' | null
}

/** Whether the data of an anonymized branch are still to be masked: no client may enter, and no copy is made. */
export const isClosed = ({ masking_state }: Pick<Branch, 'masking_state'>): boolean =>
  masking_state !== null && masking_state !== 'anonymized'

/** A branch with the attributes of its store and its project that a host needs. */
export interface StoredBranch extends Branch {
  readonly store_id: string
  readonly store_number: number
  /** The uid that its store has on its host; null until it is given one. */
  readonly store_uid: number | null
  /** The first segment with WAL of the store's own; null until its WAL is kept. */
  readonly first_segment: string | null
  readonly host_id: string
  readonly pg_version: number
  readonly egress: boolean
}

const SELECT_STORED = sql`
  select b.*, s.number as store_number, s.first_segment, s.host_id, u.uid as store_uid, p.pg_version,
         coalesce((p.settings ->> 'enable_egress')::boolean, false) as egress
    from branch b join store s on s.id = b.store_id join project p on p.id = b.project_id
    left join store_uid u on u.store_id = s.id`

export async function insertBranch(
  tx: Db,
  branch: Pick<Branch, 'id' | 'account_id' | 'project_id' | 'parent_id' | 'name' | 'is_default' | 'protected'> &
    Partial<Pick<Branch, 'expires_at' | 'annotation' | 'parent_timestamp' | 'parent_lsn'>> & {
      /** The store whose data it gets; undefined: the parent's. */
      readonly source_store_id?: string | undefined
      /** The branch whose data it gets; undefined: its parent. */
      readonly source_id?: string | undefined
      readonly restored_from?: string | undefined
      readonly restored_as?: string | undefined
      readonly init_source?: Branch['init_source']
      /** Its history does not reach back to that of its source. */
      readonly is_apart?: boolean
    },
): Promise<Branch> {
  const source = branch.source_id ?? branch.parent_id
  const isApart = branch.is_apart ?? (branch.init_source ?? null) !== null
  const row = await tx.row<Branch>(sql`
    with store as (
      insert into store (id, branch_id, host_id, parent_id, made_from, is_chained)
      select ${branch.id}, ${branch.id},
             host_for(${source}, (select pg_version from project where id = ${branch.project_id})),
             case when not ${isApart} then
               coalesce(${branch.source_store_id}, (select store_id from branch where id = ${source})) end,
             case when ${source}::text is null then 'template' else 'clone' end,
             case when ${isApart} then false end)
    insert into branch (id, account_id, project_id, parent_id, name, is_default, protected, expires_at, ttl_seconds,
                        annotation, pending_state, store_id, logical_bytes, refused_bytes, parent_timestamp, parent_lsn,
                        restored_from, restored_as, restore_status, init_source)
    select ${branch.id}, ${branch.account_id}, ${branch.project_id}, ${branch.parent_id}, ${branch.name},
           ${branch.is_default}::bool, ${branch.protected}::bool, ${branch.expires_at}::timestamptz,
           ${secondsUntil(branch.expires_at)},
           ${JSON.stringify(branch.annotation ?? {})}::jsonb, 'ready', ${branch.id}, p.logical_bytes, p.refused_bytes,
           ${branch.parent_timestamp}::timestamptz, ${branch.parent_lsn},
           ${branch.restored_from}, ${branch.restored_as},
           case when ${branch.restored_from}::text is not null then 'restored' end, ${branch.init_source}
      from (values (1)) one left join branch p on p.id = ${source} and ${branch.init_source}::text is null
    returning *`)
  return row as Branch
}

export function findBranch(db: Db, projectId: string, id: string): Promise<Branch | undefined> {
  return db.row(sql`select * from branch where id = ${id} and project_id = ${projectId} and deleted_at is null`)
}

export function findBranchNamed(db: Db, projectId: string, name: string): Promise<Branch | undefined> {
  return db.row(sql`select * from branch where project_id = ${projectId} and name = ${name} and deleted_at is null`)
}

export function findDefaultBranch(db: Db, projectId: string): Promise<Branch | undefined> {
  return db.row(sql`select * from branch where project_id = ${projectId} and is_default and deleted_at is null`)
}

/** For the worker: also finds deleted branches, as long as their data is stored. */
export function findStoredBranch(db: Db, id: string): Promise<StoredBranch | undefined> {
  return db.row(sql`${SELECT_STORED} where b.id = ${id}`)
}

/** The branches of these stores of a host that should have no compute: no active endpoint, no unfinished operation. */
export function listResting(db: Db, hostId: string, storeIds: readonly string[]): Promise<StoredBranch[]> {
  return db.rows(sql`
    ${SELECT_STORED}
     where p.deleted_at is null and s.host_id = ${hostId} and b.store_id = any (${storeIds}::text[])
       and b.deleted_at is null
       and not exists (select from endpoint e
                        where e.branch_id = b.id and e.deleted_at is null and e.current_state = 'active')
       and not exists (select from operation o
                        where o.project_id = b.project_id and o.finished_at is null and o.branch_id = b.id)`)
}

/** The branches of a project with stored data, deleted or not. */
export function listStoredBranches(db: Db, projectId: string): Promise<StoredBranch[]> {
  return db.rows(sql`${SELECT_STORED} where b.project_id = ${projectId}`)
}

export interface BranchPage {
  readonly search?: string | undefined
  readonly sort: 'name' | 'created_at' | 'updated_at'
  readonly descending: boolean
  readonly limit: number
  /** Whether deleted branches that can be recovered are among them. */
  readonly withDeleted?: boolean | undefined
  /** Whether it has those only. */
  readonly onlyDeleted?: boolean | undefined
  /** The sort value and the id of the last branch of the previous page. */
  readonly after?: readonly [string, string] | undefined
}

/** A branch with its sort value, as text that sorts the same way. */
export type SortedBranch = Branch & { readonly sort_value: string }

/** A page of the branches of a project. */
export function listBranches(db: Db, projectId: string, page: BranchPage): Promise<SortedBranch[]> {
  const {
    search,
    sort,
    descending,
    limit,
    withDeleted = false,
    onlyDeleted = false,
    after: [value, id] = [null, null],
  } = page
  const following = descending
    ? sql`(sort_value, id) < (${value}, ${id}) order by sort_value desc, id desc`
    : sql`(sort_value, id) > (${value}, ${id}) order by sort_value, id`
  return db.rows(sql`
    select * from (
      select *, case ${sort} when 'name' then name
                  else to_char(case ${sort} when 'created_at' then created_at else updated_at end,
                               'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end
                collate "C" as sort_value
        from branch
       where project_id = ${projectId} and (deleted_at is null and not ${onlyDeleted}
                                            or (${withDeleted} or ${onlyDeleted}) and recoverable_until is not null)
         and ${matchesSearch(search)}) sorted
     where ${value}::text is null or ${following} limit ${limit}`)
}

export async function countBranches(db: Db, projectId: string, search?: string): Promise<number> {
  const row = await db.row<{ count: number }>(sql`
    select count(*)::int as count from branch
     where project_id = ${projectId} and deleted_at is null and ${matchesSearch(search)}`)
  return row?.count ?? 0
}

/** Changes the given attributes; null removes the expiry, and a retention of its own. */
export async function updateBranch(
  tx: Db,
  id: string,
  changes: {
    name?: string | undefined
    protected?: boolean | undefined
    expires_at?: string | null | undefined
    history_retention_seconds?: number | null | undefined
  },
): Promise<Branch> {
  const row = await tx.row<Branch>(sql`
    update branch set name = coalesce(${changes.name}, name), protected = coalesce(${changes.protected}, protected),
           expires_at = case when ${changes.expires_at !== undefined} then ${changes.expires_at}::timestamptz
                             else expires_at end,
           ttl_seconds = case when ${changes.expires_at !== undefined} then ${secondsUntil(changes.expires_at)}
                              else ttl_seconds end,
           history_retention_seconds = case when ${changes.history_retention_seconds !== undefined}
                                            then ${changes.history_retention_seconds}
                                            else history_retention_seconds end,
           updated_at = clock_timestamp()
     where id = ${id} returning *`)
  return row as Branch
}

const secondsUntil = (time: string | null | undefined): number | null =>
  time ? Math.max(0, Math.round((Date.parse(time) - Date.now()) / 1000)) : null

/** Begins the time of a branch that expires anew. Returns undefined for one that does not expire. */
export function renewExpiry(tx: Db, id: string): Promise<Pick<Branch, 'expires_at'> | undefined> {
  return tx.row(sql`
    update branch set expires_at = clock_timestamp() + make_interval(secs => ttl_seconds)
     where id = ${id} and expires_at is not null and ttl_seconds is not null returning expires_at`)
}

/** Makes a branch the default of its project, instead of the current one. */
export async function setDefaultBranch(tx: Db, projectId: string, id: string): Promise<Branch> {
  await tx.rows(sql`
    update branch set is_default = false, updated_at = clock_timestamp()
     where project_id = ${projectId} and is_default and deleted_at is null and id <> ${id}`)
  const row = await tx.row<Branch>(
    sql`update branch set is_default = true, updated_at = clock_timestamp() where id = ${id} returning *`,
  )
  return row as Branch
}

/** Expired branches without children, at most 50. */
export function listExpired(db: Db): Promise<Branch[]> {
  return db.rows(sql`
    select b.* from branch b join project p on p.id = b.project_id and p.deleted_at is null
     where b.expires_at <= statement_timestamp() and b.deleted_at is null and not b.is_default and not b.protected
       and not exists (select 1 from branch c
                        where c.parent_id = b.id and (c.deleted_at is null or c.restores is not null))
     order by b.expires_at limit 50`)
}

/** Whether a branch has children, counting copies of it for unfinished restores. */
export async function hasChildren(db: Db, id: string): Promise<boolean> {
  const child = await db.row(sql`
    select 1 from branch where parent_id = ${id} and (deleted_at is null or restores is not null) limit 1`)
  return child !== undefined
}

/** The oldest children of a branch, as many as `most`. */
export function listChildren(db: Db, id: string, most: number): Promise<Pick<Branch, 'id' | 'name'>[]> {
  return db.rows(sql`
    select id, name from branch where parent_id = ${id} and deleted_at is null order by created_at limit ${most}`)
}

export async function setBranchReady(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`
    update branch set current_state = 'ready', pending_state = null, state_changed_at = clock_timestamp(),
           updated_at = clock_timestamp()
     where id = ${id}`)
}

/** A branch whose creation failed stays `init`, without a pending state. */
export async function setBranchFailed(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`update branch set pending_state = null, updated_at = clock_timestamp() where id = ${id}`)
}

/** Records that the wanted roles and databases changed: the next apply_config or start applies them. */
export async function raiseConfigVersion(tx: Db, id: string): Promise<void> {
  await tx.rows(
    sql`update branch set config_version = config_version + 1, updated_at = clock_timestamp() where id = ${id}`,
  )
}

/** Does so for all branches of a project. Returns those with an endpoint that is active or has a pending state. */
export async function raiseConfigVersions(tx: Db, projectId: string): Promise<string[]> {
  await tx.rows(
    sql`update branch set config_version = config_version + 1 where project_id = ${projectId} and deleted_at is null`,
  )
  const rows = await tx.rows<{ id: string }>(sql`
    select branch_id as id from endpoint
     where project_id = ${projectId} and deleted_at is null
       and (current_state = 'active' or pending_state is not null)`)
  return rows.map(({ id }) => id)
}

export async function setAppliedVersion(tx: Db, id: string, version: number): Promise<void> {
  await tx.rows(sql`update branch set applied_version = greatest(applied_version, ${version}) where id = ${id}`)
}

/** Records that the data of a branch made of a snapshot replace those of the branch that it was made for. */
export async function setFinalized(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`
    update branch set restore_status = 'finalized', updated_at = clock_timestamp() where id = ${id}`)
}

export async function markBranchDeleted(tx: Db, id: string): Promise<void> {
  await tx.rows(sql`
    update branch set deleted_at = clock_timestamp(), restores = null, updated_at = clock_timestamp() where id = ${id}`)
}

/**
 * Deletes the rows that belong to a removed branch. The branch's own row stays, so that its number is never reused.
 * Locks in the order project, branch, endpoint.
 */
export async function deleteBranchData(tx: Db, id: string): Promise<void> {
  const project = await tx.row<{ id: string }>(sql`
    select id from project where id = (select project_id from branch where id = ${id}) for no key update`)
  await tx.rows(sql`select from branch where id = ${id} for no key update`)
  await tx.rows(sql`delete from role where branch_id = ${id}`)
  await tx.rows(sql`delete from database where branch_id = ${id}`)
  await tx.rows(sql`delete from config_change where branch_id = ${id}`)
  await tx.rows(sql`delete from endpoint where branch_id = ${id} and deleted_at is not null`)
  await tx.rows(sql`
    update branch set store_id = null, pending_state = null, restores = null, recoverable_until = null
     where id = ${id}`)
  await tx.rows(sql`
    with removed as (delete from store where branch_id = ${id} returning id)
    delete from store_uid u using removed where u.store_id = removed.id`)
  // Blocks that it shared may be another store's own now.
  if (project) await noteProjectSpaceChange(tx, project.id)
}
