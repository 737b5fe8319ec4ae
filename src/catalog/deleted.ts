import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** How long the counted use of a deleted branch can be asked for (consumption.ts). */
const BRANCH_MONTHS = 13
/** Limit of deleted projects with rows to remove at once. */
const PROJECTS_AT_ONCE = 100

/** Projects that were deleted at least `days` ago and have neither stored data nor unfinished operations. */
const gone = (days: number) => sql`
  gone as (
    select p.id from project p
     where p.deleted_at < statement_timestamp() - make_interval(days => ${days})
       and not exists (select from branch b where b.project_id = p.id and b.store_id is not null)
       and not exists (select from operation o where o.project_id = p.id and o.finished_at is null)
     order by p.deleted_at limit ${PROJECTS_AT_ONCE})`

/** A branch `b` that no row refers to, but endpoints that are deleted too. It goes after its children. */
const IS_UNUSED = sql`
  b.store_id is null and not exists (select from store s where s.branch_id = b.id)
  and not exists (select from branch c where c.parent_id = b.id or c.restores = b.id)
  and not exists (select from endpoint e where e.branch_id = b.id and e.deleted_at is null)`

/** Deletes the branches of `unused` with their endpoints and sizes. */
const REMOVE_UNUSED = sql`
  endpoints as (delete from endpoint where branch_id in (select id from unused)),
  sizes as (
    delete from storage_size s using unused u where s.project_id = u.project_id and s.branch_id = u.id)
  delete from branch where id in (select id from unused) returning 1`

/**
 * Removes rows of projects that were deleted at least `days` ago, with those of their branches, endpoints, operations
 * and use: up to `limit` of each table. Returns whether more are left.
 */
export async function expireDeletedProjects(db: Db, days: number, limit: number): Promise<boolean> {
  const operations = await db.rows(sql`
    with ${gone(days)}
    delete from operation where id in (
      select o.id from gone g, lateral (
        select id from operation where project_id = g.id limit ${limit} for update skip locked) o limit ${limit})
    returning 1`)
  const branches = await db.rows(sql`
    with ${gone(days)}, unused as (
      select o.id, o.project_id from gone g, lateral (
        select b.id, b.project_id from branch b
         where b.project_id = g.id and ${IS_UNUSED} limit ${limit} for update skip locked) o limit ${limit}),
    ${REMOVE_UNUSED}`)
  const use = await db.rows(sql`
    with ${gone(days)}
    delete from consumption where ctid = any (array(
      select o.ctid from gone g, lateral (
        select ctid from consumption where project_id = g.id limit ${limit} for update skip locked) o limit ${limit}))
    returning 1`)
  const traffic = await db.rows(sql`
    with ${gone(days)}
    delete from endpoint_traffic where ctid = any (array(
      select o.ctid from gone g, lateral (
        select ctid from endpoint_traffic where project_id = g.id limit ${limit} for update skip locked) o
       limit ${limit}))
    returning 1`)
  const projects = await db.rows(sql`
    with ${gone(days)}
    delete from project where id in (
      select id from gone g
       where not exists (select from operation where project_id = g.id)
         and not exists (select from branch where project_id = g.id)
         and not exists (select from consumption where project_id = g.id)
         and not exists (select from endpoint_traffic where project_id = g.id))
    returning 1`)
  // The parents of the removed branches follow, and other projects those that were removed.
  return branches.length > 0 || projects.length > 0 || [operations, use, traffic].some(({ length }) => length === limit)
}

/**
 * Removes up to `limit` branches of living projects that were deleted so long ago that their use is not asked for any
 * more. Returns whether more may be left.
 */
export async function expireDeletedBranches(db: Db, limit: number): Promise<boolean> {
  const branches = await db.rows(sql`
    with unused as (
      select b.id, b.project_id from branch b
       where b.deleted_at < statement_timestamp() - make_interval(months => ${BRANCH_MONTHS}) and ${IS_UNUSED}
       order by b.deleted_at limit ${limit} for update of b skip locked),
    ${REMOVE_UNUSED}`)
  return branches.length > 0
}
