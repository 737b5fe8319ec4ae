import { Type } from 'typebox'
import { AppError } from '../../errors.ts'
import { readSchema } from '../../operations/read_schema.ts'
import { requireBranch, requireProject } from '../require.ts'
import { route } from '../route.ts'
import { requireNow } from './branch_restore.ts'

export const getBranchSchema = route('GET /projects/:project_id/branches/:branch_id/schema', {
  summary: 'The schema of a database, as pg_dump prints it; wakes the compute if it sleeps',
  tag: 'Branch',
  params: Type.Object({ project_id: Type.String(), branch_id: Type.String() }),
  query: Type.Object({
    db_name: Type.String({ minLength: 1 }),
    format: Type.Optional(Type.String()),
    lsn: Type.Optional(Type.String()),
    timestamp: Type.Optional(Type.String()),
  }),
  returns: Type.Object({ sql: Type.String() }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'NOT_INSTALLED', 'UNAVAILABLE'],
}).handle(async ({ params, query }, context) => {
  const project = await requireProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  requireNow({ lsn: query.lsn, timestamp: query.timestamp })
  if (query.format && query.format !== 'sql')
    throw new AppError('NOT_ALLOWED', `The schema is available in the format sql, not in ${query.format}.`)
  const { gone: signal } = context
  return {
    sql: await readSchema(context, {
      branchId: branch.id,
      pgVersion: project.pg_version,
      database: query.db_name,
      signal,
    }),
  }
})
