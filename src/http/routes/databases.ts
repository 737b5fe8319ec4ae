import { type Static, Type } from 'typebox'
import { raiseConfigVersion } from '../../catalog/branch.ts'
import {
  type Database as DatabaseRow,
  findDatabase,
  findRole,
  insertDatabase,
  listDatabases,
} from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { applyConfigOperation } from '../../operations/apply_config.ts'
import { requestOperation } from '../../operations/request.ts'
import { lockedProject, requireBranch, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation, presentOperation } from './operations.ts'
import { requireName } from './roles.ts'

export const Database = Type.Object(
  {
    id: Type.Integer(),
    branch_id: Type.String(),
    name: Type.String(),
    owner_name: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Database' },
)

export function presentDatabase({
  id,
  branch_id,
  name,
  owner_name,
  created_at,
  updated_at,
}: DatabaseRow): Static<typeof Database> {
  return { id, branch_id, name, owner_name, created_at, updated_at }
}

/** Makes a database, as intent. Errors: NOT_ALLOWED, NOT_FOUND (its owner), DATABASE_ALREADY_EXISTS. */
export async function addDatabase(
  { db, caller }: RequestContext,
  branchId: string,
  name: string,
  owner: string,
): Promise<DatabaseRow> {
  requireName('database', name)
  if (await findDatabase(db, branchId, name))
    throw new AppError('DATABASE_ALREADY_EXISTS', `database already exists; database_name:"${name}"`)
  if (!(await findRole(db, branchId, owner)))
    throw new AppError('NOT_FOUND', `database owner not found; role_name:"${owner}"`)
  return insertDatabase(db, { branch_id: branchId, account_id: caller.account.id, name, owner_name: owner })
}

const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })

export const createDatabase = route('POST /projects/:project_id/branches/:branch_id/databases', {
  summary: 'Create a database',
  tag: 'Database',
  params: BranchId,
  body: Type.Object({ database: Type.Object({ name: Type.String(), owner_name: Type.String() }) }),
  status: 201,
  returns: Type.Object({ database: Database, operations: Type.Array(Operation) }),
  errors: ['NOT_FOUND', 'DATABASE_ALREADY_EXISTS', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  const database = await addDatabase(context, branch.id, body.database.name, body.database.owner_name)
  await raiseConfigVersion(context.db, branch.id)
  const operation = await requestOperation(
    context.db,
    applyConfigOperation,
    { account_id: project.account_id, project_id: project.id, branch_id: branch.id },
    {},
  )
  return { database: presentDatabase(database), operations: [presentOperation(operation)] }
})

export const listBranchDatabases = route('GET /projects/:project_id/branches/:branch_id/databases', {
  summary: 'List the databases of a branch',
  tag: 'Database',
  params: BranchId,
  returns: Type.Object({ databases: Type.Array(Database) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  const databases = await listDatabases(context.db, branch.id)
  return { databases: databases.map(presentDatabase) }
})
