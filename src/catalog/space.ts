import type { Catalog, Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Projects of one pass. Each has a row of its own, and its stores are read together. */
const PROJECTS_AT_ONCE = 100
/** More rows in one statement would take much memory of a session, which keeps it. */
const STORES_AT_ONCE = 2_000

/** A project with stores to be measured on a host. */
export interface SpaceProject {
  readonly id: string
  /** Its stores there, also those that are being made. */
  readonly stores: readonly string[]
  /** The time of this reading: later changes need another pass. */
  readonly now: string
}

/** The projects whose stores on a host have changed since they were measured, those measured longest ago first. */
export function listSpaceDue(db: Db, hostId: string): Promise<SpaceProject[]> {
  return db.rows(sql`
    select p.project_id as id, statement_timestamp() as now,
           array(select s.id from branch b join store s on s.branch_id = b.id
                  where b.project_id = p.project_id and s.host_id = p.host_id order by s.number) as stores
      from project_space p
     where p.host_id = ${hostId} and p.changed_at > p.measured_at order by p.measured_at limit ${PROJECTS_AT_ONCE}`)
}

/** Notes that a store has changed, or is new: its project is measured again. */
export async function noteSpaceChange(db: Db, storeId: string): Promise<void> {
  await db.rows(sql`
    insert into project_space (project_id, host_id, shared_bytes)
    select b.project_id, s.host_id, 0 from store s join branch b on b.id = s.branch_id where s.id = ${storeId}
    on conflict (project_id, host_id) do update set changed_at = clock_timestamp()`)
}

/** Notes that stores of a project have changed, or are gone. Locks no other row: for transactions. */
export async function noteProjectSpaceChange(tx: Db, projectId: string): Promise<void> {
  await tx.rows(sql`update project_space set changed_at = clock_timestamp() where project_id = ${projectId}`)
}

/** The result of a pass over the stores of projects, in bytes. */
export interface FoundSpace {
  readonly stores: readonly {
    readonly id: string
    readonly apparent_bytes: number
    readonly real_bytes: number
    readonly own_bytes: number | null
    readonly history_bytes: number | null
    readonly is_exact: boolean
  }[]
  readonly projects: readonly {
    readonly id: string
    readonly apparent_bytes: number
    readonly real_bytes: number
    readonly shared_bytes: number
  }[]
  readonly other_bytes: number
}

/** Records the space of projects' stores on a host. @param at when the pass began */
export async function recordSpace(catalog: Catalog, hostId: string, at: string, found: FoundSpace): Promise<void> {
  await catalog.transaction(async (tx) => {
    for (let from = 0; from < found.stores.length; from += STORES_AT_ONCE)
      await tx.rows(sql`
      insert into store_space as p (store_id, apparent_bytes, real_bytes, own_bytes, history_bytes, is_exact)
      select s.id, f.apparent_bytes, f.real_bytes, f.own_bytes, f.history_bytes, f.is_exact
        from jsonb_to_recordset(${JSON.stringify(found.stores.slice(from, from + STORES_AT_ONCE))}::jsonb)
               f (id text, apparent_bytes int8, real_bytes int8, own_bytes int8, history_bytes int8, is_exact bool)
        join store s on s.id = f.id and s.state = 'ready'
      on conflict (store_id) do update
        set apparent_bytes = excluded.apparent_bytes, real_bytes = excluded.real_bytes,
            own_bytes = excluded.own_bytes, history_bytes = excluded.history_bytes, is_exact = excluded.is_exact
      where (p.apparent_bytes, p.real_bytes, p.own_bytes, p.history_bytes, p.is_exact)
            is distinct from (excluded.apparent_bytes, excluded.real_bytes, excluded.own_bytes, excluded.history_bytes,
                              excluded.is_exact)`)
    await tx.rows(sql`
      update project_space p
         set apparent_bytes = f.apparent_bytes, real_bytes = f.real_bytes, shared_bytes = f.shared_bytes,
             measured_at = ${at}::timestamptz
        from jsonb_to_recordset(${JSON.stringify(found.projects)}::jsonb)
               f (id text, apparent_bytes int8, real_bytes int8, shared_bytes int8)
       where p.host_id = ${hostId} and p.project_id = f.id`)
    await tx.rows(sql`
      update host set space_measured_at = ${at}::timestamptz, template_bytes = ${found.other_bytes},
             real_bytes = real_bytes - template_bytes + ${found.other_bytes}
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
           case when p.store_id is not null then nullif(j.measured_at, '-infinity') end as measured_at,
           (select count(*) from snapshot n
             where n.project_id = b.project_id and n.source_branch_id = b.id) as snapshots,
           (select case when count(*) = count(o.own_bytes) then coalesce(sum(o.own_bytes), 0)::int8 end
              from snapshot n join branch c on c.id = n.branch_id left join store_space o on o.store_id = c.store_id
             where n.project_id = b.project_id and n.source_branch_id = b.id) as snapshot_bytes
      from branch b join store s on s.id = b.store_id join host h on h.id = s.host_id
      left join store_space p on p.store_id = s.id
      left join project_space j on j.project_id = b.project_id and j.host_id = s.host_id
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
           (select min(nullif(measured_at, '-infinity')) from project_space where project_id = ${projectId})
             as measured_at
      from branch b join store s on s.id = b.store_id join host h on h.id = s.host_id
      left join store_space p on p.store_id = s.id
     where b.project_id = ${projectId}`)
}
