import type { Db } from './catalog.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/**
 * How many times its limit a branch may grow to by a tenant's override, before its compute is suspended: VACUUM FULL
 * needs each table twice. Where the disk is almost full, how many times its size.
 */
const GROWTH = 2
const GROWTH_ON_FULL_DISK = 1.1
const GROWTH_BYTES = 64 * 2 ** 20

/** Whether the branch `b` of an endpoint `e` has grown on although its compute refuses writes. */
export const HAS_GROWN_ON = sql`
  b.logical_bytes > b.refused_bytes
                    * case e.writes_refused when 'host_disk' then ${GROWTH_ON_FULL_DISK}::float8
                                            else ${GROWTH}::float8 end
                    + ${GROWTH_BYTES}::int8`

/** Why an endpoint `e` is to refuse writes: its branch is over the project's limit, or its host's disk is full. */
const DECIDED = sql`
  endpoint e join branch b on b.id = e.branch_id join store s on s.id = b.store_id join host h on h.id = s.host_id
  join project p on p.id = e.project_id,
  lateral (select nullif((p.settings -> 'quota' ->> 'logical_size_bytes')::float8, 0)) l (most),
  lateral (select case when b.logical_bytes > l.most then 'branch_size' when h.disk_short then 'host_disk' end) d (why)`

/**
 * The endpoints of a host or a project that should refuse writes and do not, or the reverse. Of those without a compute
 * only those that refuse them: others are decided on once they run.
 */
export function listWronglyRefusing(
  db: Db,
  of: { readonly hostId: string } | { readonly projectId: string },
): Promise<Endpoint[]> {
  const where =
    'hostId' in of
      ? sql`s.host_id = ${of.hostId} and e.id in (
              select endpoint_id from compute where host_id = ${of.hostId} and ended_at is null
              union all select id from endpoint where writes_refused is not null)`
      : sql`e.project_id = ${of.projectId} and (e.compute_id is not null or e.writes_refused is not null)`
  return db.rows(sql`
    select e.* from ${DECIDED} where e.deleted_at is null and e.writes_refused is distinct from d.why and ${where}`)
}

/** Whether an endpoint should refuse writes and does not, or the reverse. */
export async function refusesWrongly(db: Db, endpointId: string): Promise<boolean> {
  const row = await db.row(sql`
    select from ${DECIDED} where e.id = ${endpointId} and e.writes_refused is distinct from d.why`)
  return row !== undefined
}

/** Records whether and why an endpoint refuses writes. Returns it if that has changed. */
export function decideOnWrites(db: Db, endpointId: string): Promise<Endpoint | undefined> {
  return db.row(sql`
    with decided as (
      select e.id, e.branch_id, d.why,
             case d.why when 'branch_size' then coalesce(b.refused_bytes, l.most::int8)
                        when 'host_disk' then case when e.writes_refused is null
                                                   then coalesce(b.refused_bytes, b.logical_bytes)
                                                   else b.logical_bytes end end as bytes
        from ${DECIDED} where e.id = ${endpointId} and e.writes_refused is distinct from d.why),
    counted as (
      update branch b set refused_bytes = d.bytes from decided d
       where b.id = d.branch_id and b.refused_bytes is distinct from d.bytes returning b.id)
    -- The branch is locked before the endpoint: a WITH that is not read would run last.
    update endpoint e set writes_refused = d.why from decided d, (select count(*) from counted) first where e.id = d.id
    returning e.*`)
}

/** After a change of a project's limit: branches that are larger already may grow from their present size on. */
export async function forgiveGrowth(tx: Db, projectId: string): Promise<void> {
  await tx.rows(sql`
    update branch b set refused_bytes = b.logical_bytes from project p,
           lateral (select nullif((p.settings -> 'quota' ->> 'logical_size_bytes')::float8, 0)) l (most)
     where p.id = ${projectId} and b.project_id = p.id and b.deleted_at is null and b.logical_bytes > l.most`)
}

/** The active endpoints of a host whose branches have grown on although they refuse writes. */
export function listGrownOn(db: Db, hostId: string): Promise<Endpoint[]> {
  return db.rows(sql`
    select e.* from endpoint e join compute c on c.id = e.compute_id join branch b on b.id = e.branch_id
     where c.host_id = ${hostId} and c.ended_at is null and e.pending_state is null and e.deleted_at is null
       and ${HAS_GROWN_ON}`)
}
