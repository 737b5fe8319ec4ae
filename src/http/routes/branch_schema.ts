import { Type } from 'typebox'
import { compareSchemas, readRowCounts, readSchema } from '../../commands/read_database.ts'
import { requireBranch, requireNow, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

export const getBranchSchema = route('GET /projects/:project_id/branches/:branch_id/schema', {
  summary: 'The schema of a database, as pg_dump prints it; wakes the compute if it sleeps',
  tag: 'Branch',
  params: BranchParams,
  query: Type.Object({
    db_name: Type.String({ minLength: 1 }),
    format: Type.Optional(Type.String()),
    lsn: Type.Optional(Type.String()),
    timestamp: Type.Optional(Type.String()),
  }),
  returns: Type.Object({ sql: Type.String() }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'NOT_INSTALLED', 'UNAVAILABLE'],
}).handle(async ({ params, query: { db_name, format, ...moments } }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  requireNow(moments)
  if (format && format !== 'sql')
    throw new AppError('NOT_ALLOWED', `The schema is available in the format sql, not in ${format}.`)
  return { sql: await readSchema(context, project, branch, db_name, context.gone) }
})

export const compareBranchSchema = route('GET /projects/:project_id/branches/:branch_id/compare_schema', {
  summary: 'How the schema of a database differs from that on another branch, by default the parent',
  tag: 'Branch',
  params: BranchParams,
  query: Type.Object({
    db_name: Type.String({ minLength: 1 }),
    base_branch_id: Type.Optional(Type.String()),
    lsn: Type.Optional(Type.String()),
    timestamp: Type.Optional(Type.String()),
    base_lsn: Type.Optional(Type.String()),
    base_timestamp: Type.Optional(Type.String()),
  }),
  returns: Type.Object({ diff: Type.String() }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'NOT_INSTALLED', 'UNAVAILABLE'],
}).handle(async ({ params, query: { db_name, base_branch_id, ...moments } }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  requireNow(moments)
  const baseId = base_branch_id ?? branch.parent_id
  if (baseId === null)
    throw new AppError('NOT_ALLOWED', 'The branch has no parent: give base_branch_id, the branch to compare it with.')
  const base = await requireBranch(context, project.id, baseId)
  return { diff: await compareSchemas(context, project, { base, branch }, db_name, context.gone) }
})

export const listBranchTables = route('GET /projects/:project_id/branches/:branch_id/tables', {
  summary: 'The tables of a database with their numbers of rows; wakes the compute if it sleeps',
  description: `Neap only. Counts for up to 20 seconds, each table for up to 5: \`rows\` is absent where that did
not suffice, or the table was locked. With over 1,000 tables, those with the fewest pages (\`more\`).`,
  tag: 'Branch',
  params: BranchParams,
  query: Type.Object({ db_name: Type.String({ minLength: 1 }) }),
  returns: Type.Object({
    tables: Type.Array(
      Type.Object({
        schema_name: Type.String(),
        table_name: Type.String(),
        rows: Type.Optional(Type.Integer()),
      }),
    ),
    more: Type.Boolean(),
  }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'UNAVAILABLE'],
}).handle(async ({ params, query: { db_name } }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  const { tables, more } = await readRowCounts(context, branch, db_name, context.gone)
  return { tables: [...tables], more }
})
