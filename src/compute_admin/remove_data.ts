/*
 * Removes the data of a compute's databases and keeps their schemas, before the first client of a schema-only branch.
 * Users' code must not run in these sessions, which are a superuser's: triggers are off, also those that fire on
 * replicas, and TRUNCATE evaluates no expression of an index.
 */
import { ADMIN_DATABASE } from '../postgres/own_session.ts'
import { type AdminSession, identifier } from './session.ts'

/** Objects of each kind that one call removes the data of. */
const AT_ONCE = 200
/** The lowest oid of an object that initdb has not made (Postgres manual, "System Catalog Initial Data"). */
const FIRST_OID = 16_384
/** The bit of TRUNCATE in pg_trigger.tgtype (pg_trigger.h). */
const TRUNCATE_TRIGGER = 32

/**
 * Removes a part of the data. Returns whether data may be left: call again. Errors: Postgres's own; Error (a database
 * accepts no connections).
 */
export async function removeData(session: AdminSession): Promise<boolean> {
  const databases = await session.query<{ name: string; open: boolean }>(
    `select datname as name, datallowconn as open from pg_database
      where datname not in ('${ADMIN_DATABASE}', 'template0', 'template1') order by datname`,
  )
  for (const { name, open } of databases) {
    if (!open) throw new Error(`the database "${name}" accepts no connections, so its data cannot be removed`)
    if (await session.beside(name, removeFromDatabase)) return true
  }
  return false
}

/** An object of a user, and not of an extension, by its name. */
interface Named {
  readonly schema: string
  readonly name: string
}

const nameOf = ({ schema, name }: Named): string => `${identifier(schema)}.${identifier(name)}`

/** Relations of users that satisfy a condition on pg_class `c`, `AT_ONCE` at most. */
const relations = (session: AdminSession, condition: string): Promise<Named[]> =>
  session.query(
    `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.oid >= ${FIRST_OID} and c.relpersistence <> 't' and ${condition}
        and not exists (select from pg_depend d
                         where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      order by c.oid limit ${AT_ONCE}`,
  )

async function removeFromDatabase(session: AdminSession): Promise<boolean> {
  // They hold locks on the tables that they have written.
  for (const { gid } of await session.query<{ gid: string }>(
    'select quote_literal(gid) as gid from pg_prepared_xacts where database = current_database()',
  ))
    await session.query(`rollback prepared ${gid}`)
  const tables = await relations(session, `c.relkind = 'r' and pg_relation_size(c.oid) > 0`)
  if (tables.length > 0) await truncate(session, tables)
  const views = await relations(session, `c.relkind = 'm' and c.relispopulated`)
  for (const view of views) await session.query(`refresh materialized view ${nameOf(view)} with no data`)
  // CASE, since Postgres may evaluate the parts of a condition in any order.
  const isUsed = `case when c.relkind = 'S' then pg_sequence_last_value(c.oid) is not null else false end`
  const sequences = await relations(session, isUsed)
  for (const sequence of sequences) await session.query(`alter sequence ${nameOf(sequence)} restart`)
  const objects = await session.query(
    `select lo_unlink(oid) from (select oid from pg_largeobject_metadata limit ${AT_ONCE}) o`,
  )
  // Statistics have samples of columns.
  await session.query(`delete from pg_statistic where starelid >= ${FIRST_OID}`)
  await session.query('delete from pg_statistic_ext_data')
  return [tables, views, sequences, objects].some((done) => done.length === AT_ONCE)
}

async function truncate(session: AdminSession, tables: readonly Named[]): Promise<void> {
  await session.query('begin')
  await session.query('set local session_replication_role = replica')
  // Replicas fire these. Also of other tables, which CASCADE reaches.
  const triggers = await session.query<Named & { trigger: string; fires: string }>(
    `select n.nspname as schema, c.relname as name, t.tgname as trigger,
            case t.tgenabled when 'A' then 'always' else 'replica' end as fires
       from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      where t.tgenabled in ('A', 'R') and t.tgtype & ${TRUNCATE_TRIGGER} <> 0 and t.tgparentid = 0`,
  )
  for (const each of triggers)
    await session.query(`alter table ${nameOf(each)} disable trigger ${identifier(each.trigger)}`)
  // ONLY, since a foreign table that inherits would be emptied on its server.
  await session.query(`truncate ${tables.map((each) => `only ${nameOf(each)}`).join(', ')} cascade`)
  for (const each of triggers)
    await session.query(`alter table ${nameOf(each)} enable ${each.fires} trigger ${identifier(each.trigger)}`)
  await session.query('commit')
}
