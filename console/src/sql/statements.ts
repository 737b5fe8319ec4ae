import type { Row } from './ask.ts'
import { ident } from './quote.ts'

export interface Extension {
  /** The schema of pg_stat_statements; undefined where the extension was not created. */
  readonly schema: string | undefined
  readonly serverVersion: number
}

export const EXTENSION = `
SELECT pg_catalog.current_setting('server_version_num'),
       (SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'pg_stat_statements')`

export const CREATE_EXTENSION = 'CREATE EXTENSION pg_stat_statements'

export const toExtension = (row: Row | undefined): Extension => ({
  schema: row?.[1] ?? undefined,
  serverVersion: Math.floor(Number(row?.[0]) / 10_000),
})

/** What statements are sorted by: the columns of pg_stat_statements. */
export const ORDERS = {
  total_exec_time: 'Total time',
  mean_exec_time: 'Mean time',
  calls: 'Calls',
  rows: 'Rows',
} as const

export type Order = keyof typeof ORDERS

export const isOrder = (text: string | null): text is Order => text !== null && Object.hasOwn(ORDERS, text)

export interface Statement {
  readonly id: string
  readonly query: string
  readonly role: string
  readonly calls: number
  readonly rows: number
  readonly totalMs: number
  readonly meanMs: number
  /** Of all blocks that it read, what share was in the cache; undefined where it read none. */
  readonly cachedPercent: number | undefined
}

const MAX_STATEMENTS = 100

/** The statements of this database that lead in an order. */
export const statementsBy = (schema: string, order: Order): string => `
SELECT s.queryid, pg_catalog.left(s.query, 20000), pg_catalog.pg_get_userbyid(s.userid), s.calls, s.rows,
       s.total_exec_time, s.mean_exec_time,
       100.0 * s.shared_blks_hit / nullif(s.shared_blks_hit + s.shared_blks_read, 0)
  FROM ${ident(schema)}.pg_stat_statements s
 WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
   AND s.queryid IS NOT NULL AND pg_catalog.pg_get_userbyid(s.userid) !~ '^neap_'
 ORDER BY s.${order} DESC LIMIT ${MAX_STATEMENTS}`

export const toStatements = (rows: readonly Row[]): Statement[] =>
  rows.map(([id, query, role, calls, count, total, mean, cached]) => ({
    id: `${id} ${role}`,
    query: query ?? '',
    role: role ?? '',
    calls: Number(calls),
    rows: Number(count),
    totalMs: Number(total),
    meanMs: Number(mean),
    cachedPercent: cached === null || cached === undefined ? undefined : Number(cached),
  }))

/** The first version that plans statements whose parameters are not known. */
export const GENERIC_PLAN_SINCE = 16

export const planOf = (query: string): string => `EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${query}`
