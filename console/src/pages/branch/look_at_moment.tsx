import { useMutation } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { type Branch, call, isGone, type Operation } from '../../api.ts'
import { Loading } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { DiffView } from './diff_view.tsx'

/** So long the branch of the moment remains if the page is closed. */
const EXPIRES_MS = 3_600_000
const LOOK_MS = 500

type TableRows = ApiResponse<'GET /projects/:project_id/branches/:branch_id/tables'>['tables'][number]

interface Compared {
  readonly table: string
  /** Undefined where the table is absent, or was not counted. */
  readonly rowsThen: number | undefined
  readonly rowsNow: number | undefined
}

interface Look {
  readonly database: string
  readonly tables: readonly Compared[]
  /** Undefined where the database has been deleted since. */
  readonly diff: string | undefined
}

/** Compares each database of a branch at a moment with now, when asked to: that makes a branch for the while. */
export function LookAtMoment({ branch, at }: { readonly branch: Branch; readonly at: string }) {
  const look = useMutation({ mutationFn: () => lookAt(branch, at) })
  if (look.isPending) return <Loading what="Making a branch of that moment, and comparing it" />
  if (!look.data)
    return (
      <p>
        {look.error && <small role="alert">{look.error.message}</small>}
        <button type="button" onClick={() => look.mutate()}>
          Compare with now
        </button>
      </p>
    )
  return look.data.map(({ database, tables, diff }) => (
    <section key={database} aria-label={`Changes in ${database}`}>
      <h3>{database}</h3>
      {tables.length === 0 ? (
        <p>No tables, neither then nor now.</p>
      ) : (
        <Table
          label={`Rows of the tables in ${database}`}
          rows={tables}
          keyOf={({ table }) => table}
          columns={[
            { title: 'Table', of: ({ table }) => table },
            { title: 'Rows then', of: ({ rowsThen }) => rowsThen?.toLocaleString('en') ?? '–' },
            { title: 'Rows now', of: ({ rowsNow }) => rowsNow?.toLocaleString('en') ?? '–' },
          ]}
        />
      )}
      {diff === undefined || diff === '' ? (
        <p>{diff === undefined ? 'The database has been deleted since.' : 'The schema was the same.'}</p>
      ) : (
        <DiffView diff={diff} again={() => look.mutate()} isReading={look.isPending} />
      )}
    </section>
  ))
}

async function lookAt({ project_id, id }: Branch, parent_timestamp: string): Promise<Look[]> {
  const now = { project_id, branch_id: id }
  const made = await call('POST /projects/:project_id/branches', {
    params: { project_id },
    body: {
      branch: { parent_id: id, parent_timestamp, expires_at: new Date(Date.now() + EXPIRES_MS).toISOString() },
      endpoints: [{ type: 'read_write' }],
    },
  })
  const then = { project_id, branch_id: made.branch.id }
  try {
    for (const operation of made.operations) await ended(operation)
    const { databases } = await call('GET /projects/:project_id/branches/:branch_id/databases', { params: then })
    const looks: Look[] = []
    for (const { name } of databases) looks.push(await compare(then, now, name))
    return looks
  } finally {
    await call('DELETE /projects/:project_id/branches/:branch_id', { params: then, query: { hard_delete: true } })
  }
}

/** Errors: Error (the operation failed). */
async function ended({ project_id, id }: Operation): Promise<void> {
  const params = { project_id, operation_id: id }
  for (;;) {
    const { operation } = await call('GET /projects/:project_id/operations/:operation_id', { params })
    if (operation.status === 'finished') return
    if (operation.status === 'failed') throw new Error(`No branch of that moment could be made: ${operation.error}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

interface Place {
  readonly project_id: string
  readonly branch_id: string
}

async function compare(then: Place, now: Place, database: string): Promise<Look> {
  const query = { db_name: database }
  const tablesOf = async (params: Place) =>
    (await call('GET /projects/:project_id/branches/:branch_id/tables', { params, query })).tables
  const before = await tablesOf(then)
  const after = await tablesOf(now).catch((error: unknown) => {
    if (isGone(error)) return undefined
    throw error
  })
  if (!after) return { database, diff: undefined, tables: sideBySide(before, []) }
  const { diff } = await call('GET /projects/:project_id/branches/:branch_id/compare_schema', {
    params: now,
    query: { ...query, base_branch_id: then.branch_id },
  })
  return { database, diff, tables: sideBySide(before, after) }
}

function sideBySide(before: readonly TableRows[], after: readonly TableRows[]): Compared[] {
  const nameOf = ({ schema_name, table_name }: TableRows) => `${schema_name}.${table_name}`
  const [then, now] = [before, after].map((tables) => new Map(tables.map((each) => [nameOf(each), each.rows])))
  const names = [...new Set([...before, ...after].map(nameOf))].sort((one, other) => one.localeCompare(other))
  return names.map((table) => ({ table, rowsThen: then?.get(table), rowsNow: now?.get(table) }))
}
