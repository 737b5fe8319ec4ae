import { type AdminSession, identifier } from './session.ts'

/** Tables that are counted at most: those with the fewest pages. */
const MAX_TABLES = 1_000
/** Counting ends after so long, and that of one table. */
const TOTAL_MS = 20_000
const EACH_MS = 5_000
const LOCK_WAIT_MS = 500

/** A table or materialized view, and its number of rows; undefined where that was not counted in time, or is locked. */
export interface TableRows {
  readonly schema_name: string
  readonly table_name: string
  readonly rows?: number
}

/** The tables of a database of its users, by name. `more`: there are others. */
export interface RowCounts {
  readonly tables: readonly TableRows[]
  readonly more: boolean
}

/** A partitioned table is counted by its partitions. */
const TABLES = `
  select n.nspname as schema_name, c.relname as table_name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'm') and c.relpersistence <> 't'
     and n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%'
   order by c.relpages, n.nspname, c.relname limit ${MAX_TABLES + 1}`

/** Time that a session for `countRows` needs for each statement, in milliseconds. */
export const COUNT_TIMEOUT_MS = EACH_MS + 1_000

/**
 * Counts the rows of all tables of a session's database; no code of its users runs for that. Errors: those of the
 * session.
 */
export async function countRows(session: AdminSession, signal: AbortSignal): Promise<RowCounts> {
  const deadline = performance.now() + TOTAL_MS
  await session.query(`
    select set_config('default_transaction_read_only', 'on', false),
           set_config('lock_timeout', '${LOCK_WAIT_MS}', false), set_config('statement_timeout', '${EACH_MS}', false)`)
  const found = await session.query<Omit<TableRows, 'rows'>>(TABLES)
  const tables: TableRows[] = []
  for (const table of found.slice(0, MAX_TABLES)) {
    const isTime = performance.now() < deadline && !signal.aborted
    const rows = isTime ? await countIn(session, table) : undefined
    tables.push({ ...table, ...(rows !== undefined && { rows }) })
  }
  const nameOf = ({ schema_name, table_name }: TableRows) => `${schema_name}\0${table_name}`
  tables.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
  return { tables, more: found.length > MAX_TABLES }
}

/** Postgres manual, "PostgreSQL Error Codes": of a table that is gone, locked, damaged or takes too long to count. */
const UNCOUNTED = new Set(['42P01', '3F000', '55P03', '57014', '55000', 'XX001', 'XX002'])

async function countIn(session: AdminSession, { schema_name, table_name }: TableRows): Promise<number | undefined> {
  const name = `${identifier(schema_name)}.${identifier(table_name)}`
  try {
    const [row] = await session.query<{ rows: string }>(`select count(*) as rows from only ${name}`)
    const rows = Number(row?.rows)
    // Code in the compute may answer anything.
    return Number.isSafeInteger(rows) ? rows : undefined
  } catch (error) {
    if (UNCOUNTED.has((error as { code?: string }).code ?? '')) return undefined
    throw error
  }
}
