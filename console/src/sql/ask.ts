import type { Column, Report, SqlEvent } from '../../../src/http/sql/events.ts'
import { type Branch, send } from '../api.ts'

export type { Column, Report, SqlEvent }
export type Row = readonly (string | null)[]

/** Where SQL runs, and as whom. */
export interface SqlPlace {
  readonly branch: Branch
  readonly database: string
  readonly role: string
}

interface AskOptions {
  readonly readOnly: boolean
  readonly maxRows: number
  readonly timeoutSeconds: number
  readonly signal?: AbortSignal
}

/** Queries that run SQL: only the person's own wish runs them again, since that wakes a sleeping compute. */
export const ONCE = { retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false } as const

/** An error that Postgres answered with. */
export class SqlError extends Error {
  override readonly name = 'SqlError'
  readonly report: Report

  constructor(report: Report) {
    super(report.detail === undefined ? report.message : `${report.message} (${report.detail})`)
    this.report = report
  }
}

/** The connection to Neap ended before the answer did. */
export class CutOffError extends Error {
  override readonly name = 'CutOffError'
}

/** Runs SQL and yields what happens, in order. Errors: ApiError (it was not begun), CutOffError, AbortError. */
export async function* ask(
  { branch, database, role }: SqlPlace,
  sql: string,
  { readOnly, maxRows, timeoutSeconds, signal }: AskOptions,
): AsyncGenerator<SqlEvent> {
  const { body } = await send('POST', `/api/v2/projects/${branch.project_id}/branches/${branch.id}/sql`, {
    body: {
      database_name: database,
      role_name: role,
      sql,
      read_only: readOnly,
      max_rows: maxRows,
      max_bytes: 512 * 2 ** 20,
      timeout_seconds: timeoutSeconds,
    },
    ...(signal && { signal }),
  })
  const texts = body?.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = (await texts?.read().catch((cause: unknown) => cutOff(signal, cause))) ?? { done: true }
    if (done || value === undefined) break
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as SqlEvent
  }
}

/** An answer that ends by the person's own wish is no error of the connection. */
function cutOff(signal: AbortSignal | undefined, cause: unknown): never {
  if (signal?.aborted) throw cause
  throw new CutOffError('Neap went away before it had answered. Try again.', { cause })
}

/** The columns and rows of the last statement. Errors: SqlError, ApiError, CutOffError. */
export async function rowsOf(
  place: SqlPlace,
  sql: string,
  { readOnly = true, maxRows = 10_000, signal }: { readOnly?: boolean; maxRows?: number; signal?: AbortSignal } = {},
): Promise<{ columns: readonly Column[]; rows: readonly Row[]; tags: readonly string[] }> {
  let columns: readonly Column[] = []
  let rows: Row[] = []
  const tags: string[] = []
  let ended = false
  for await (const event of ask(place, sql, { readOnly, maxRows, timeoutSeconds: 60, ...(signal && { signal }) })) {
    if (event.type === 'error') throw new SqlError(event)
    if (event.type === 'columns') [columns, rows] = [event.columns, []]
    if (event.type === 'rows') for (const row of event.rows) rows.push(row)
    if (event.type === 'complete') tags.push(event.tag)
    ended ||= event.type === 'end'
  }
  if (!ended) throw new CutOffError('Neap went away before it had answered. Try again.')
  return { columns, rows, tags }
}
