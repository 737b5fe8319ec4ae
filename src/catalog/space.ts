import type { Catalog, Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A store whose space is measured, with its project. */
export interface SpaceStore {
  readonly id: string
  readonly project: string
}

/** Blocks may change without a notice in the catalog, as by a compute that runs on. */
const MAX_AGE_SECONDS = 3_600

/** More rows in one statement would take much memory of a session, which keeps it. */
const AT_ONCE = 2_000

/** Whether the space of a host's stores is to be measured. */
export interface SpaceDue {
  readonly now: string
  readonly stores: number
  /** It was never measured, or long ago, or a store was measured anew since. */
  readonly is_due: boolean
}

/** Whether a store of a host has changed since their space was measured. Reads the index of its rows of `store`. */
export async function readSpaceDue(db: Db, hostId: string): Promise<SpaceDue | undefined> {
  return db.row(sql`
    select clock_timestamp() as now, (select count(*) from store where host_id = h.id) as stores,
           coalesce(h.space_measured_at < clock_timestamp() - make_interval(secs => ${MAX_AGE_SECONDS})
                    or exists (select from store where host_id = h.id and measured_at > h.space_measured_at),
                    true) as is_due
      from host h where h.id = ${hostId}`)
}

/** All stores of a host, also those that are being made. */
export function listSpaceStores(db: Db, hostId: string): Promise<SpaceStore[]> {
  return db.rows(sql`
    select s.id, b.project_id as project from store s join branch b on b.id = s.branch_id
     where s.host_id = ${hostId} order by b.project_id, s.number`)
}

/** The result of a pass over the stores of a host, in bytes. */
export interface FoundSpace {
  readonly stores: readonly {
    readonly id: string
    readonly apparent_bytes: number
    readonly real_bytes: number
    readonly own_bytes: number | null
    readonly history_bytes: number | null
    readonly is_exact: boolean
  }[]
  readonly sharedOf: ReadonlyMap<string, number>
  readonly real_bytes: number
}

/** Records the space of a host's stores. @param at when the pass began */
export async function recordSpace(catalog: Catalog, hostId: string, at: string, found: FoundSpace): Promise<void> {
  const shared = [...found.sharedOf].map(([project_id, shared_bytes]) => ({ project_id, shared_bytes }))
  await catalog.transaction(async (tx) => {
    for (let from = 0; from < found.stores.length; from += AT_ONCE)
      await tx.rows(sql`
      insert into store_space as p (store_id, apparent_bytes, real_bytes, own_bytes, history_bytes, is_exact)
      select s.id, f.apparent_bytes, f.real_bytes, f.own_bytes, f.history_bytes, f.is_exact
        from jsonb_to_recordset(${JSON.stringify(found.stores.slice(from, from + AT_ONCE))}::jsonb)
               f (id text, apparent_bytes int8, real_bytes int8, own_bytes int8, history_bytes int8, is_exact bool)
        join store s on s.id = f.id and s.state = 'ready'
      on conflict (store_id) do update
        set apparent_bytes = excluded.apparent_bytes, real_bytes = excluded.real_bytes,
            own_bytes = excluded.own_bytes, history_bytes = excluded.history_bytes, is_exact = excluded.is_exact
      where (p.apparent_bytes, p.real_bytes, p.own_bytes, p.history_bytes, p.is_exact)
            is distinct from (excluded.apparent_bytes, excluded.real_bytes, excluded.own_bytes, excluded.history_bytes,
                              excluded.is_exact)`)
    await tx.rows(sql`
      with found as (
        select f.project_id, f.shared_bytes
          from jsonb_to_recordset(${JSON.stringify(shared)}::jsonb) f (project_id text, shared_bytes int8)
          join project p on p.id = f.project_id),
      gone as (
        delete from project_space
         where host_id = ${hostId} and project_id not in (select project_id from found))
      insert into project_space (project_id, host_id, shared_bytes)
      select project_id, ${hostId}, shared_bytes from found
      on conflict (project_id, host_id) do update set shared_bytes = excluded.shared_bytes`)
    await tx.rows(sql`
      update host set space_measured_at = ${at}::timestamptz, real_bytes = ${found.real_bytes},
             apparent_bytes = ${found.stores.reduce((sum, { apparent_bytes }) => sum + apparent_bytes, 0)}
       where id = ${hostId}`)
  })
}

/** The space of a branch. All bytes are null before it was measured. */
export interface BranchSpace {
  readonly clone_mode: 'reflink' | 'image' | 'copy' | null
  readonly apparent_bytes: number | null
  readonly real_bytes: number | null
  readonly own_bytes: number | null
  readonly history_bytes: number | null
  readonly is_exact: boolean | null
  readonly measured_at: string | null
  /** The snapshots that were taken of it, and the blocks that each has alone; null until all were measured. */
  readonly snapshots: number
  readonly snapshot_bytes: number | null
}

export function readBranchSpace(db: Db, branchId: string): Promise<BranchSpace | undefined> {
  return db.row(sql`
    select h.clone_mode, p.apparent_bytes, p.real_bytes, p.own_bytes, p.history_bytes, p.is_exact,
           case when p.store_id is not null then h.space_measured_at end as measured_at,
           (select count(*) from snapshot n
             where n.project_id = b.project_id and n.source_branch_id = b.id) as snapshots,
           (select case when count(*) = count(o.own_bytes) then coalesce(sum(o.own_bytes), 0)::int8 end
              from snapshot n join branch c on c.id = n.branch_id left join store_space o on o.store_id = c.store_id
             where n.project_id = b.project_id and n.source_branch_id = b.id) as snapshot_bytes
      from branch b join store s on s.id = b.store_id join host h on h.id = s.host_id
      left join store_space p on p.store_id = s.id
     where b.id = ${branchId}`)
}

/** The space of a project's stores, those of snapshots and deleted branches included. */
export interface ProjectSpace {
  readonly clone_mode: 'reflink' | 'image' | 'copy' | null
  readonly apparent_bytes: number | null
  /** Of the blocks that no store of another project has. */
  readonly own_bytes: number | null
  readonly is_exact: boolean | null
  /** Of the host that was measured longest ago. */
  readonly measured_at: string | null
}

export async function readProjectSpace(db: Db, projectId: string): Promise<ProjectSpace | undefined> {
  return db.row(sql`
    select (array_agg(h.clone_mode order by s.created_at))[1] as clone_mode,
           sum(p.apparent_bytes)::int8 as apparent_bytes,
           (sum(p.own_bytes)
            + coalesce((select sum(shared_bytes) from project_space where project_id = ${projectId}), 0))::int8
             as own_bytes,
           bool_and(p.is_exact) as is_exact,
           min(h.space_measured_at) filter (where p.store_id is not null) as measured_at
      from branch b join store s on s.id = b.store_id join host h on h.id = s.host_id
      left join store_space p on p.store_id = s.id
     where b.project_id = ${projectId}`)
}
