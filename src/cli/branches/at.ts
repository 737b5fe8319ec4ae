import { Argument, Command } from 'commander'
import type { ApiClient, ApiResponse } from '../../client.ts'
import { AppError, UsageError } from '../../errors.ts'
import { findDatabase } from '../resolve.ts'
import { printable, printableLines, table } from '../table.ts'
import { pastMoment, type PastMoment } from '../values.ts'
import { quiet, timeout, type VerbSession, verb } from '../verb.ts'
import { problemOf, waitFor } from '../wait.ts'
import { OPTIONAL } from './columns.ts'

/** So long after the wait the branch of the moment remains if this program is killed. */
const EXPIRES_MS = 3_600_000
const WAIT_SECONDS = 300

interface Flags {
  readonly database?: string
  readonly keep?: string
}

type Tables = ApiResponse<'GET /projects/:project_id/branches/:branch_id/tables'>['tables']

interface Comparison {
  readonly branch: { readonly id: string; readonly name: string }
  readonly database: string
  /** From the schema of then to that of now; empty when they are equal. */
  readonly schema_diff: string
  /** Numbers of rows; null where the table is absent, or was not counted. */
  readonly tables: readonly {
    readonly schema_name: string
    readonly table_name: string
    readonly rows_then: number | null
    readonly rows_now: number | null
  }[]
}

export const atVerb = () =>
  new Command('at')
    .description(
      'Compare a database of a branch as it was at a moment with now: its schema, and the rows of its tables. ' +
        'Wakes the branch, and makes another for the while.',
    )
    .addArgument(new Argument('<when>', '30m or 2h ago, a moment, or an LSN').argParser(pastMoment))
    .addArgument(OPTIONAL)
    .option('-d, --database <name>', 'may be left out where there is only one')
    .option('--keep <name>', 'keep the data of then as a branch of this name')
    .addOption(timeout())
    .addOption(quiet())
    .action(
      verb(async ({ call, flags, branch: find }: VerbSession<Flags>, when: PastMoment, asked?: string) => {
        const of = await find(asked)
        const { name: database } = await findDatabase(call, of, flags.database)
        const { timeout: seconds = WAIT_SECONDS, quiet: isQuiet = false, json = false } = flags
        const expiresAt = flags.keep === undefined ? Date.now() + seconds * 1000 + EXPIRES_MS : undefined
        const { branch, operations } = await branchAt(call, of, when, { name: flags.keep, expiresAt })
        const then = { project_id: of.project_id, branch_id: branch.id }
        try {
          const problem = problemOf(await waitFor(call, operations, { seconds, isQuiet: isQuiet || json }))
          if (problem) throw new UsageError(problem)
          const answer = { branch: { id: branch.id, name: branch.name }, ...(await compare(call, then, of, database)) }
          return { answer, text: shown }
        } finally {
          if (flags.keep === undefined)
            await call('DELETE /projects/:project_id/branches/:branch_id', {
              params: then,
              query: { hard_delete: true },
            })
        }
      }),
    )

interface Place {
  readonly project_id: string
  readonly branch_id: string
}

function branchAt(
  call: ApiClient,
  { project_id, branch_id }: Place,
  when: PastMoment,
  { name, expiresAt }: { name: string | undefined; expiresAt: number | undefined },
) {
  const moment = 'lsn' in when ? { parent_lsn: when.lsn } : { parent_timestamp: when.timestamp }
  const expires_at = expiresAt === undefined ? undefined : new Date(expiresAt).toISOString()
  const branch = { name, parent_id: branch_id, expires_at, ...moment }
  const body = { branch, endpoints: [{ type: 'read_write' as const }] }
  return call('POST /projects/:project_id/branches', { params: { project_id }, body })
}

async function compare(
  call: ApiClient,
  then: Place,
  now: Place,
  database: string,
): Promise<Omit<Comparison, 'branch'>> {
  const query = { db_name: database }
  const tablesOf = (params: Place) =>
    call('GET /projects/:project_id/branches/:branch_id/tables', { params, query }).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'NOT_FOUND')
        throw new UsageError(`There was no database ${printable(database)} at that moment.`)
      throw error
    })
  const [before, after] = [await tablesOf(then), await tablesOf(now)]
  const { diff } = await call('GET /projects/:project_id/branches/:branch_id/compare_schema', {
    params: now,
    query: { ...query, base_branch_id: then.branch_id },
  })
  return { database, schema_diff: diff, tables: sideBySide(before.tables, after.tables) }
}

function sideBySide(before: Tables, after: Tables): Comparison['tables'] {
  const key = ({ schema_name, table_name }: Tables[number]) => JSON.stringify([schema_name, table_name])
  const [then, now] = [before, after].map((tables) => new Map(tables.map((each) => [key(each), each.rows ?? null])))
  const named = new Map([...before, ...after].map((each) => [key(each), each]))
  return [...named]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([id, { schema_name, table_name }]) => ({
      schema_name,
      table_name,
      rows_then: then?.get(id) ?? null,
      rows_now: now?.get(id) ?? null,
    }))
}

function shown({ schema_diff, tables }: Comparison): string {
  const rows = tables.map(({ schema_name, table_name, rows_then, rows_now }) => [
    `${schema_name}.${table_name}`,
    rows_then === null ? '-' : String(rows_then),
    rows_now === null ? '-' : String(rows_now),
  ])
  const counts =
    rows.length === 0 ? 'No tables, neither then nor now.' : table(['TABLE', 'ROWS THEN', 'ROWS NOW'], rows)
  return `${counts}\n\n${schema_diff === '' ? 'The schema was the same.' : printableLines(schema_diff.trimEnd())}`
}
