import { randomBytes } from 'node:crypto'
import { ADMIN_DATABASE } from '../postgres/own_session.ts'
import { countRows } from './row_counts.ts'
import type { AdminSession } from './session.ts'

/** The result of a check of all data of a compute. */
export interface CheckedData {
  readonly databases: number
  readonly tables: number
  readonly indexes: number
  /** Of the tables of its users that were counted in time. */
  readonly rows: number
  /** The first damages, as Postgres says them. */
  readonly damages: readonly string[]
}

const MAX_DAMAGES = 10
/** No user can have made one of that name. */
const SCHEMA = `neap_check_${randomBytes(8).toString('hex')}`

/** Time that a session for `checkData` needs for each statement, in milliseconds. */
export const CHECK_TIMEOUT_MS = 600_000

/**
 * Checks the structure of all tables and B-tree indexes (Postgres manual, "amcheck"), and counts the rows. It leaves an
 * extension there: call it beside a server that is thrown away. No code of its users runs.
 */
export async function checkData(session: AdminSession, signal: AbortSignal): Promise<CheckedData> {
  const sum = { databases: 0, tables: 0, indexes: 0, rows: 0 }
  const damages: string[] = []
  // Of a database that allows no connections the data are to be restored as well. -2: its removal was interrupted.
  const databases = await session.query<{ name: string; admits: string | null }>(
    `select datname as name,
            case when not datallowconn then format('alter database %I allow_connections true', datname) end as admits
       from pg_database where datname not in ('template0', 'template1') and datconnlimit <> -2 order by datname`,
  )
  for (const { name: database, admits } of databases) {
    if (admits !== null) await session.query(admits)
    const found = await session.beside(database, (there) => checkDatabase(there, signal))
    sum.databases++
    sum.tables += found.tables
    sum.indexes += found.indexes
    if (database !== ADMIN_DATABASE) sum.rows += found.rows
    damages.push(...found.damages.map((damage) => `${database}: ${damage}`))
  }
  return { ...sum, damages: damages.slice(0, MAX_DAMAGES) }
}

async function checkDatabase(session: AdminSession, signal: AbortSignal): Promise<Omit<CheckedData, 'databases'>> {
  await session.query(`create schema ${SCHEMA}`)
  await session.query(`create extension amcheck schema ${SCHEMA}`)
  const damages: string[] = []
  const tables = await session.query<{ name: string; oid: string }>(`
    select oid::text, oid::regclass::text as name from pg_class
     where relkind in ('r', 'm', 't') and relpersistence = 'p' order by oid`)
  for (const { oid, name } of tables) {
    signal.throwIfAborted()
    const sql = `select msg from ${SCHEMA}.verify_heapam(relation => $1::oid::regclass) limit ${MAX_DAMAGES}`
    const lines = await session.query<{ msg: string }>(sql, [oid]).catch(asDamage)
    damages.push(...lines.map(({ msg }) => `${name}: ${msg}`))
  }
  const indexes = await session.query<{ name: string; oid: string }>(`
    select c.oid::text, c.oid::regclass::text as name
      from pg_class c join pg_am a on a.oid = c.relam join pg_index i on i.indexrelid = c.oid
     where c.relkind = 'i' and c.relpersistence = 'p' and a.amname = 'btree' and i.indisvalid order by c.oid`)
  for (const { oid, name } of indexes) {
    signal.throwIfAborted()
    const check = session.query(`select ${SCHEMA}.bt_index_check($1::oid::regclass)`, [oid])
    damages.push(...(await check.then(() => [], asDamage)).map(({ msg }) => `${name}: ${msg}`))
  }
  const { tables: counted } = await countRows(session, signal)
  const rows = counted.reduce((total, table) => total + (table.rows ?? 0), 0)
  return { tables: tables.length, indexes: indexes.length, rows, damages: damages.slice(0, MAX_DAMAGES) }
}

/** Data or index corrupted (Postgres manual, "PostgreSQL Error Codes"). Other errors do not concern the data. */
function asDamage(error: unknown): { readonly msg: string }[] {
  if (['XX001', 'XX002'].includes(String((error as { code?: string }).code))) return [{ msg: (error as Error).message }]
  throw error
}
