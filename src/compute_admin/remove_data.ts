/*
 * Removes the data of a compute's databases and keeps their schemas, before the first client of a schema-only branch.
 * Users' code must do no harm in these sessions, which are a superuser's: triggers are off, also those that fire on
 * replicas. To plan the expressions of indexes TRUNCATE may call functions of users, as the owners of the tables, which
 * may write rows again: the removal goes on until a look finds all empty.
 */
import { ADMIN_DATABASE } from '../postgres/own_session.ts'
import { type AdminSession, identifier, literal } from './session.ts'

/** Objects of each kind that one statement or transaction removes the data of. */
const AT_ONCE = 200
/** The lowest oid of an object that initdb has not made (Postgres manual, "System Catalog Initial Data"). */
const FIRST_OID = 16_384
/** The bit of TRUNCATE in pg_trigger.tgtype (pg_trigger.h). */
const TRUNCATE_TRIGGER = 32

/** Catalogs whose removed rows have data of users. */
const WITH_DATA = ['pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject', 'pg_largeobject_metadata']

/** Data that cannot be removed, for a reason that users can change. */
class RemovalRefused extends Error {
  override readonly name = 'RemovalRefused'
}

/** Classes of errors that another attempt may not have: of connections, transactions, resources and interventions. */
const PASSING = new Set(['08', '40', '53', '55', '57', '58'])

/** Whether an error of `removeData` would come again. */
export function isRefusal(error: unknown): boolean {
  const code = error instanceof Error && 'severity' in error && 'code' in error ? String(error.code) : undefined
  return error instanceof RemovalRefused || (code !== undefined && !PASSING.has(code.slice(0, 2)))
}

/** Removes the data. Errors: Postgres's own; RemovalRefused (a database cannot be entered). */
export async function removeData(session: AdminSession): Promise<void> {
  const databases = await session.query<{ name: string; open: boolean }>(
    `select datname as name, datallowconn as open from pg_database
      where datname not in ('${ADMIN_DATABASE}', 'template0') order by datname`,
  )
  for (const { name, open } of databases) {
    if (!open) throw new RemovalRefused(`the database "${name}" accepts no connections`)
    if (name.includes('\u{fffd}')) throw new RemovalRefused(`the name of the database "${name}" is not UTF-8`)
    await session.beside(name, async (there) => {
      while (await removeRows(there));
      await removeTraces(there)
    })
  }
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

/** Removes rows, and returns whether it has found any. */
async function removeRows(session: AdminSession): Promise<boolean> {
  // They hold locks on the tables that they have written.
  for (const { gid } of await session.query<{ gid: string }>(
    'select quote_literal(gid) as gid from pg_prepared_xacts where database = current_database()',
  ))
    await session.query(`rollback prepared ${gid}`)
  const tables = await relations(session, `c.relkind = 'r' and pg_relation_size(c.oid) > 0`)
  if (tables.length > 0) await truncate(session, tables)
  const views = await relations(session, `c.relkind = 'm' and c.relispopulated`)
  for (const view of views) await session.query(`refresh materialized view ${nameOf(view)} with no data`)
  const objects = await session.query(
    `select lo_unlink(oid) from (select oid from pg_largeobject_metadata limit ${AT_ONCE}) o`,
  )
  return [tables, views, objects].some((found) => found.length > 0)
}

/** Removes traces of removed rows, and lets sequences begin anew. */
async function removeTraces(session: AdminSession): Promise<void> {
  await restartSequences(session)
  // Statistics have samples of columns.
  await session.query('delete from pg_statistic')
  await session.query('delete from pg_statistic_ext_data')
  for (const catalog of WITH_DATA) await session.query(`vacuum full ${catalog}`)
  await session.query('select pg_stat_reset()')
}

/** Sequences begin anew, also those whose value was set and not used yet. */
async function restartSequences(session: AdminSession): Promise<void> {
  const sequences = await session.query<Named & { start: string }>(
    `select n.nspname as schema, c.relname as name, s.seqstart::text as start
       from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
      where c.oid >= ${FIRST_OID} and c.relpersistence <> 't'
        and not exists (select from pg_depend d
                         where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      order by c.oid`,
  )
  for (let at = 0; at < sequences.length; at += AT_ONCE) {
    const changed = sequences.slice(at, at + AT_ONCE).map((each) => {
      const name = nameOf(each)
      return `select ${literal(name)} as name from ${name} where is_called or last_value <> ${each.start}`
    })
    for (const { name } of await session.query<{ name: string }>(changed.join(' union all ')))
      await session.query(`alter sequence ${name} restart`)
  }
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
