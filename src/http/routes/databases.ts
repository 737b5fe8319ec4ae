import { type Static, Type } from 'typebox'
import type { Branch } from '../../catalog/branch.ts'
import {
  type Database as DatabaseRow,
  deleteDatabase as deleteDatabaseRow,
  findDatabase,
  insertDatabase,
  listDatabases,
  updateDatabase as updateDatabaseRow,
} from '../../catalog/database.ts'
import { findRole } from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { changeableBranch, queueChanges, readBranch } from '../branch_config.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation } from './operations.ts'
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

/** Makes a database, as intent. Errors: NOT_ALLOWED, NOT_FOUND (its owner), DATABASE_ALREADY_EXISTS, DATABASES_LIMIT_EXCEEDED. */
export async function addDatabase(
  context: RequestContext,
  branchId: string,
  name: string,
  owner: string,
): Promise<DatabaseRow> {
  const { db, caller, config } = context
  await requireFreeName(context, branchId, name)
  await requireOwner(context, branchId, owner)
  if ((await listDatabases(db, branchId)).length >= config.databasesLimit)
    throw new AppError(
      'DATABASES_LIMIT_EXCEEDED',
      `A branch has ${config.databasesLimit} databases at most. Delete one first.`,
    )
  return insertDatabase(db, { branch_id: branchId, account_id: caller.account.id, name, owner_name: owner })
}

async function requireFreeName({ db }: RequestContext, branchId: string, name: string): Promise<void> {
  requireName('database', name)
  if (await findDatabase(db, branchId, name))
    throw new AppError('DATABASE_ALREADY_EXISTS', `database already exists; database_name:"${name}"`)
}

async function requireOwner({ db }: RequestContext, branchId: string, owner: string): Promise<void> {
  if (!(await findRole(db, branchId, owner)))
    throw new AppError('NOT_FOUND', `database owner not found; role_name:"${owner}"`)
}

async function requireDatabase({ db }: RequestContext, branch: Branch, name: string): Promise<DatabaseRow> {
  const database = await findDatabase(db, branch.id, name)
  if (!database) throw new AppError('NOT_FOUND', `database not found; database_name:"${name}"`)
  return database
}

const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })
const DatabaseName = Type.Object({ project_id: Type.String(), branch_id: Type.String(), database_name: Type.String() })
const DatabaseChanged = Type.Object({ database: Database, operations: Type.Array(Operation) })

export const createDatabase = route('POST /projects/:project_id/branches/:branch_id/databases', {
  summary: 'Create a database',
  tag: 'Database',
  params: BranchId,
  body: Type.Object({ database: Type.Object({ name: Type.String(), owner_name: Type.String() }) }),
  status: 201,
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'DATABASE_ALREADY_EXISTS', 'NOT_ALLOWED', 'DATABASES_LIMIT_EXCEEDED', 'LOCKED'],
}).handle(async ({ params, body }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const database = await addDatabase(context, branch.id, body.database.name, body.database.owner_name)
  return { database: presentDatabase(database), operations: await queueChanges(context, project, branch) }
})

export const listBranchDatabases = route('GET /projects/:project_id/branches/:branch_id/databases', {
  summary: 'List the databases of a branch, those that were made by SQL too',
  tag: 'Database',
  params: BranchId,
  returns: Type.Object({ databases: Type.Array(Database) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  const databases = await listDatabases(context.db, branch.id)
  return { databases: databases.map(presentDatabase) }
})

export const getDatabase = route('GET /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Get a database',
  tag: 'Database',
  params: DatabaseName,
  returns: Type.Object({ database: Database }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  return { database: presentDatabase(await requireDatabase(context, branch, params.database_name)) }
})

/** A rename ends the sessions of the database, since Postgres renames none that is in use. What is already so changes nothing. */
export const updateDatabase = route('PATCH /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Rename a database, which ends its sessions, or give it another owner',
  tag: 'Database',
  params: DatabaseName,
  body: Type.Object({
    database: Type.Object({ name: Type.Optional(Type.String()), owner_name: Type.Optional(Type.String()) }),
  }),
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'DATABASE_ALREADY_EXISTS', 'NOT_ALLOWED', 'LOCKED'],
}).handle(async ({ params, body }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const database = await requireDatabase(context, branch, params.database_name)
  const name = body.database.name ?? database.name
  const owner = body.database.owner_name ?? database.owner_name
  if (name !== database.name) await requireFreeName(context, branch.id, name)
  if (owner !== database.owner_name) await requireOwner(context, branch.id, owner)
  if (name === database.name && owner === database.owner_name)
    return { database: presentDatabase(database), operations: [] }
  const changed = await updateDatabaseRow(context.db, database, name, owner)
  return { database: presentDatabase(changed), operations: await queueChanges(context, project, branch) }
})

export const deleteDatabase = route('DELETE /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Delete a database with all that is in it, and end its sessions',
  tag: 'Database',
  params: DatabaseName,
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
}).handle(async ({ params }, context) => {
  const { project, branch } = await changeableBranch(context, params)
  const database = await requireDatabase(context, branch, params.database_name)
  await deleteDatabaseRow(context.db, database)
  return { database: presentDatabase(database), operations: await queueChanges(context, project, branch) }
})
