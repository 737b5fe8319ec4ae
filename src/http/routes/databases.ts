import { type Static, Type } from 'typebox'
import { listDatabases } from '../../catalog/database.ts'
import { createDatabase } from '../../commands/add_database.ts'
import type { ChangedDatabase } from '../../commands/changed.ts'
import { deleteDatabase } from '../../commands/delete_database.ts'
import { lookAtBranch, readBranch } from '../../commands/look.ts'
import { requireDatabase } from '../../commands/require.ts'
import { changeDatabase } from '../../commands/update_database.ts'
import { Database, databaseView } from '../../views/database.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { route } from '../route.ts'
import { BranchParams } from '../path_params.ts'

const DatabaseName = Type.Object({ project_id: Type.String(), branch_id: Type.String(), database_name: Type.String() })
const DatabaseChanged = Type.Object({ database: Database, operations: Type.Array(Operation) })

const databaseChanged = ({ database, operations }: ChangedDatabase): Static<typeof DatabaseChanged> => ({
  database: databaseView(database),
  operations: operations.map((each) => operationView(each)),
})

export const createBranchDatabase = route('POST /projects/:project_id/branches/:branch_id/databases', {
  summary: 'Create a database',
  tag: 'Database',
  params: BranchParams,
  body: Type.Object({ database: Type.Object({ name: Type.String(), owner_name: Type.String() }) }),
  status: 201,
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'DATABASE_ALREADY_EXISTS', 'NOT_ALLOWED', 'DATABASES_LIMIT_EXCEEDED', 'LOCKED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params, body }, context, look) =>
    databaseChanged(await createDatabase(context, params, body.database, look)),
  )

export const listBranchDatabases = route('GET /projects/:project_id/branches/:branch_id/databases', {
  summary: 'List the databases of a branch, those that were made by SQL too',
  tag: 'Database',
  params: BranchParams,
  returns: Type.Object({ databases: Type.Array(Database) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  const databases = await listDatabases(context.db, branch.id)
  return { databases: databases.map(databaseView) }
})

export const getDatabase = route('GET /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Get a database',
  tag: 'Database',
  params: DatabaseName,
  returns: Type.Object({ database: Database }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { branch } = await readBranch(context, params)
  return { database: databaseView(await requireDatabase(context, branch, params.database_name)) }
})

export const updateBranchDatabase = route('PATCH /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Rename a database, which ends its sessions, or give it another owner',
  tag: 'Database',
  params: DatabaseName,
  body: Type.Object({
    database: Type.Object({ name: Type.Optional(Type.String()), owner_name: Type.Optional(Type.String()) }),
  }),
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'DATABASE_ALREADY_EXISTS', 'NOT_ALLOWED', 'LOCKED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params, body }, context, look) =>
    databaseChanged(await changeDatabase(context, params, params.database_name, body.database, look)),
  )

export const deleteBranchDatabase = route('DELETE /projects/:project_id/branches/:branch_id/databases/:database_name', {
  summary: 'Delete a database with all that is in it, and end its sessions',
  tag: 'Database',
  params: DatabaseName,
  returns: DatabaseChanged,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'LOCKED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params }, context, look) =>
    databaseChanged(await deleteDatabase(context, params, params.database_name, look)),
  )
