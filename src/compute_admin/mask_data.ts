/*
 * Masks the data of a compute that no client has entered. The expressions of rules, and whatever of the users' an
 * UPDATE evaluates (checks, expressions of indexes, generated columns), run as a role made for this, which may do what
 * the owners of the tables may: never as a superuser. Triggers and rules are off meanwhile. One transaction masks all
 * tables of a database, so that equal hashes stay equal whatever interrupts it. Tables are rewritten afterwards, views
 * filled anew, and statistics made anew: old versions of rows and samples of columns hold masked values.
 */
import { randomBytes } from 'node:crypto'
import type { MaskingRule } from '../catalog/masking.ts'
import { ADMIN, ADMIN_DATABASE } from '../postgres/own_session.ts'
import { anonFunctionsSql } from './anon_functions.ts'
import { type AdminSession, identifier, literal, type RoleSession } from './session.ts'

/** The role that masks. */
export const MASKER = 'neap_masker'

/** Data that cannot be masked by the rules, for a reason that users can change. */
export class MaskingRefused extends Error {
  override readonly name = 'MaskingRefused'
}

export interface MaskingTools {
  /** A superuser session. */
  readonly session: AdminSession
  /** The verifier of the role that masks. */
  readonly verifier: string
  /** Runs `work` in a session of the role that masks. */
  readonly asMasker: <T>(database: string, work: (session: RoleSession) => Promise<T>) => Promise<T>
  readonly onProgress: (message: string) => Promise<void>
}

interface Table {
  readonly name: string
  readonly rules: readonly MaskingRule[]
}

/** Masks all columns that the rules name. Runs twice with the same end. Errors: MaskingRefused. */
export async function maskData(tools: MaskingTools, rules: readonly MaskingRule[]): Promise<void> {
  const { session, verifier } = tools
  const databases = Map.groupBy(rules, (rule) => rule.database_name)
  const names = [...databases.keys()]
  for (const name of names)
    if (name === ADMIN_DATABASE || !(await isDatabase(session, name)))
      throw new MaskingRefused(`there is no database ${identifier(name)} that accepts connections`)
  const salt = randomBytes(16).toString('hex')
  await removeMasker(session)
  await session.query(`create role ${MASKER} login nosuperuser inherit bypassrls password ${literal(verifier)}`)
  try {
    for (const [database, of] of databases)
      await session.beside(database, (there) => maskDatabase(tools, there, { database, tables: tablesOf(of), salt }))
  } finally {
    await removeMasker(session)
  }
}

function tablesOf(rules: readonly MaskingRule[]): Table[] {
  const nameOf = ({ schema_name, table_name }: MaskingRule) => `${identifier(schema_name)}.${identifier(table_name)}`
  return [...Map.groupBy(rules, nameOf)].map(([name, of]) => ({ name, rules: of }))
}

async function removeMasker(session: AdminSession): Promise<void> {
  const [role] = await session.query('select from pg_roles where rolname = $1', [MASKER])
  if (!role) return
  // An earlier run, by other rules, may have given it rights elsewhere.
  const databases = await session.query<{ name: string }>(
    `select datname as name from pg_database where datallowconn and datname <> 'template0'`,
  )
  for (const { name } of databases)
    await session.beside(name, (there) => there.query(`drop owned by ${MASKER} cascade`))
  await session.query(`drop role ${MASKER}`)
}

const isDatabase = async (session: AdminSession, name: string): Promise<boolean> =>
  (await session.query('select from pg_database where datname = $1 and datallowconn', [name])).length > 0

interface DatabaseToMask {
  readonly database: string
  readonly tables: readonly Table[]
  readonly salt: string
}

async function maskDatabase(
  { asMasker, onProgress }: MaskingTools,
  session: AdminSession,
  { database, tables, salt }: DatabaseToMask,
): Promise<void> {
  const named: number[] = []
  for (const { name, rules } of tables) named.push(...(await requireTable(session, name, rules)))
  const oids = [...named, ...(await reachedTables(session, named))]
  // They hold locks on rows, and would commit others after the masking.
  for (const { gid } of await session.query<{ gid: string }>(
    'select quote_literal(gid) as gid from pg_prepared_xacts where database = current_database()',
  ))
    await session.query(`rollback prepared ${gid}`)
  // An interrupted run has left it.
  if (await hasSchema(session, ADMIN)) await session.query('drop schema anon cascade')
  const hasOwn = await hasSchema(session)
  if (!hasOwn) await session.query(anonFunctionsSql(salt))
  await session.query(`grant usage on schema anon to ${MASKER}`)
  try {
    await asMasker(database, async (masker) => updateAll(masker, await switches(session, oids)))
  } finally {
    if (!hasOwn) await session.query('drop schema anon cascade')
  }
  await rewrite(session, oids)

  async function updateAll(masker: RoleSession, { off, on }: Switches): Promise<void> {
    await masker.query('begin')
    for (const statement of off) await masker.query(statement)
    for (const [index, { name, rules }] of tables.entries()) {
      await onProgress(`Anonymizing table ${database}.${name} (${index + 1}/${tables.length})`)
      const columns = rules.map((rule) => `${identifier(rule.column_name)} = ${valueOf(rule)}`)
      const update = `update ${name} set ${columns.join(', ')}`
      // Errors of a rule with any data are told in Postgres' words.
      await masker.query(`explain ${update}`).catch((error: unknown) => {
        throw refusalOf(error, `the table ${name}`, { isOfData: false })
      })
      await masker.query(update).catch((error: unknown) => {
        throw refusalOf(error, `the table ${name}`)
      })
    }
    // A table with deferred checks under way is not altered.
    for (const statement of ['set constraints all immediate', ...on, 'commit'])
      await masker.query(statement).catch((error: unknown) => {
        throw refusalOf(error, `the database ${identifier(database)}`)
      })
  }
}

/** Whether there is a schema `anon`, of this owner. */
const hasSchema = async (session: AdminSession, owner?: string): Promise<boolean> =>
  (
    await session.query(
      `select from pg_namespace where nspname = 'anon' and ($1::text is null or pg_get_userbyid(nspowner) = $1)`,
      [owner],
    )
  ).length > 0

/** An expression ends where its parentheses do: a comment at its end hides none of them. */
const valueOf = ({ masking_function, masking_value = '' }: MaskingRule): string =>
  masking_function === undefined ? literal(masking_value) : `(${masking_function}\n)`

/** The table and all that inherit from it. Gives the masker the rights of their owners. Errors: MaskingRefused. */
async function requireTable(session: AdminSession, name: string, rules: readonly MaskingRule[]): Promise<number[]> {
  // The owner of a database has the rights of pg_database_owner, a role without members.
  const tables = await session.query<Member>(
    `with recursive member as (
       select to_regclass($1)::oid as oid
        union select i.inhrelid from pg_inherits i join member m on m.oid = i.inhparent)
     select c.oid::int8 as oid, c.oid::regclass::text as name, c.relkind as kind, r.rolsuper as is_own,
            quote_ident(r.rolname) as owner, quote_ident(n.nspname) as schema
       from member m join pg_class c on c.oid = m.oid join pg_namespace n on n.oid = c.relnamespace
       join pg_database d on d.datname = current_database()
       join pg_roles r on r.oid = case c.relowner when 'pg_database_owner'::regrole then d.datdba else c.relowner end`,
    [name],
  )
  if (tables.length === 0) throw new MaskingRefused(`there is no table ${name}`)
  for (const { kind, name: found, is_own } of tables) {
    if (kind === 'f') throw new MaskingRefused(`${found} is a foreign table, whose rows are elsewhere`)
    if (!['r', 'p'].includes(kind)) throw new MaskingRefused(`${found} is no table`)
    if (is_own) throw new MaskingRefused(`${found} belongs to Postgres or an extension`)
  }
  const columns = await session.query<{ name: string }>(
    'select attname as name from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped',
    [name],
  )
  const known = new Set(columns.map((column) => column.name))
  for (const { column_name } of rules)
    if (!known.has(column_name)) throw new MaskingRefused(`the table ${name} has no column ${identifier(column_name)}`)
  for (const { name: table, owner, schema } of tables) {
    await session.query(`grant ${owner} to ${MASKER}`)
    await session.query(`grant usage on schema ${schema} to ${MASKER}`)
    await session.query(`grant select, update on ${table} to ${MASKER}`)
  }
  return tables.map(({ oid }) => Number(oid))
}

/**
 * The tables that follow changes of these by foreign keys (`on update cascade`), and so on. Gives the masker the rights
 * of their owners: it switches their triggers off.
 */
async function reachedTables(session: AdminSession, oids: readonly number[]): Promise<number[]> {
  const reached = await session.query<{ oid: string; owner: string; is_own: boolean }>(
    `with recursive reached as (
       select unnest($1::oid[]) as oid
        union
       select next.oid from reached r, lateral (
         select conrelid from pg_constraint where contype = 'f' and confrelid = r.oid and confupdtype in ('c', 'n', 'd')
          union all select inhrelid from pg_inherits where inhparent = r.oid) next (oid))
     select c.oid::int8 as oid, quote_ident(o.rolname) as owner, o.rolsuper as is_own
       from reached r join pg_class c on c.oid = r.oid join pg_database d on d.datname = current_database()
       join pg_roles o on o.oid = case c.relowner when 'pg_database_owner'::regrole then d.datdba else c.relowner end
      where c.relkind in ('r', 'p') and c.oid <> all ($1::oid[])`,
    [oids],
  )
  for (const { owner, is_own } of reached) if (!is_own) await session.query(`grant ${owner} to ${MASKER}`)
  return reached.filter(({ is_own }) => !is_own).map(({ oid }) => Number(oid))
}

interface Member {
  readonly oid: string
  readonly name: string
  readonly kind: string
  readonly owner: string
  readonly is_own: boolean
  readonly schema: string
}

/**
 * Statements that switch users' triggers and rules of tables off, put foreign keys off and let published tables without
 * a key be updated, and all back as it was.
 */
interface Switches {
  readonly off: readonly string[]
  readonly on: readonly string[]
}

async function switches(session: AdminSession, oids: readonly number[]): Promise<Switches> {
  const found = await session.query<{ table: string; kind: string; name: string; fires: string }>(
    `select tgrelid::regclass::text as table, 'trigger' as kind, quote_ident(tgname) as name, tgenabled as fires
       from pg_trigger where tgrelid = any ($1::oid[]) and not tgisinternal and tgenabled <> 'D' and tgparentid = 0
      union all
     select ev_class::regclass::text, 'rule', quote_ident(rulename), ev_enabled
       from pg_rewrite where ev_class = any ($1::oid[]) and ev_type = '2' and ev_enabled <> 'D'`,
    [oids],
  )
  // Both sides of a foreign key may be masked, one after the other.
  const keys = await session.query<{ table: string; name: string; deferrable: boolean }>(
    `select conrelid::regclass::text as table, quote_ident(conname) as name, condeferrable as deferrable
       from pg_constraint
      where contype = 'f' and conrelid = any ($1::oid[]) and conparentid = 0 and not condeferred`,
    [oids],
  )
  const keyless = await session.query<{ table: string; identity: string }>(
    `select c.oid::regclass::text as table, case c.relreplident when 'n' then 'nothing' else 'default' end as identity
       from pg_class c
      where c.oid = any ($1::oid[]) and c.relkind = 'r' and exists (select from pg_publication)
        and (c.relreplident = 'n' or c.relreplident = 'd'
             and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary))`,
    [oids],
  )
  const mode: Record<string, string> = { O: '', A: 'always ', R: 'replica ' }
  const alter = ({ table, name }: { table: string; name: string }, to: string) =>
    `alter table ${table} alter constraint ${name} ${to}`
  return {
    off: [
      ...found.map(({ table, kind, name }) => `alter table ${table} disable ${kind} ${name}`),
      ...keys.map((key) => alter(key, 'deferrable initially deferred')),
      ...keyless.map(({ table }) => `alter table ${table} replica identity full`),
    ],
    on: [
      ...found.map(({ table, kind, name, fires }) => `alter table ${table} enable ${mode[fires] ?? ''}${kind} ${name}`),
      ...keys.map((key) => alter(key, key.deferrable ? 'deferrable initially immediate' : 'not deferrable')),
      ...keyless.map(({ table, identity }) => `alter table ${table} replica identity ${identity}`),
    ],
  }
}

/** Leaves no old version of a row, no sample of a column and no result of an earlier query. */
async function rewrite(session: AdminSession, oids: readonly number[]): Promise<void> {
  const names = await session.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where oid = any ($1::oid[]) and relkind = 'r'`,
    [oids],
  )
  for (const { name } of names) await session.query(`vacuum (full) ${name}`)
  await refillViews(session)
  // Of all tables: those above a partition, views and indexes have samples of its columns, too.
  await session.query(`delete from pg_statistic where starelid >= ${FIRST_OID}`)
  await session.query('delete from pg_statistic_ext_data')
  await session.query('vacuum (full) pg_catalog.pg_statistic, pg_catalog.pg_statistic_ext_data')
  await session.query('analyze')
}

/** Fills materialized views anew, in rounds: one may read another. One that fails is left empty. */
async function refillViews(session: AdminSession): Promise<void> {
  const views = await session.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where relkind = 'm' and relispopulated`,
  )
  for (const { name } of views) await session.query(`refresh materialized view ${name} with no data`)
  let left = views
  for (let before = Infinity; left.length > 0 && left.length < before;) {
    before = left.length
    const failed: typeof left = []
    for (const view of left)
      await session.query(`refresh materialized view ${view.name}`).catch(() => failed.push(view))
    left = failed
  }
}

/** The first oid that is no part of Postgres (FirstNormalObjectId). */
const FIRST_OID = 16_384

/** Classes of errors whose messages hold no values (Postgres manual, "Error Codes"): of constraints and of a server. */
const WITHOUT_VALUES = /^(23|53|55|57)/

/** An error of Postgres as one that users read. Its message may hold a value, unless it is of the rule alone. */
function refusalOf(error: unknown, of: string, { isOfData = true } = {}): unknown {
  if (!(error instanceof Error && 'severity' in error)) return error
  const code = 'code' in error ? String(error.code) : ''
  // A function that a tenant has written may read rows, and chooses its error.
  const isOfFunction = 'where' in error && Boolean(error.where)
  const why =
    !isOfFunction && (!isOfData || WITHOUT_VALUES.test(code))
      ? error.message
      : `an expression of its rules fails on its data (SQLSTATE ${code})`
  return new MaskingRefused(`${of} could not be masked: ${why}`)
}
