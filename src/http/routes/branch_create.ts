import { QUOTA_ERRORS } from '../../errors.ts'
import { type Static, Type } from 'typebox'
import { createBranch, type CreatedBranch as CreatedRows, lookAtParent } from '../../commands/create_branch.ts'
import { passwordOf } from '../../commands/role_password.ts'
import { Branch, branchView } from '../../views/branch.ts'
import { ConnectionDetails, connectionDetails } from '../../views/connection.ts'
import { Database, databaseView } from '../../views/database.ts'
import { Endpoint, endpointView } from '../../views/endpoint.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { Role, roleView } from '../../views/role.ts'
import { TextMap } from '../../views/text_map.ts'
import { type RequestContext, route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'
import { NewEndpoint, REFUSALS } from './endpoints.ts'

export const NewBranch = Type.Object({
  branch: Type.Optional(
    Type.Object({
      parent_id: Type.Optional(Type.String()),
      name: Type.Optional(Type.String({ maxLength: 256 })),
      parent_lsn: Type.Optional(Type.String()),
      parent_timestamp: Type.Optional(Type.String()),
      protected: Type.Optional(Type.Boolean()),
      archived: Type.Optional(Type.Boolean()),
      init_source: Type.Optional(Type.String()),
      expires_at: Type.Optional(
        Type.Union([Type.String({ format: 'date-time', description: 'At most 30 days ahead' }), Type.Null()]),
      ),
    }),
  ),
  endpoints: Type.Optional(Type.Array(NewEndpoint)),
  annotation_value: Type.Optional(TextMap),
})

export const CreatedBranch = Type.Object({
  branch: Branch,
  endpoints: Type.Array(Endpoint),
  operations: Type.Array(Operation),
  roles: Type.Array(Role),
  databases: Type.Array(Database),
  connection_uris: Type.Optional(Type.Array(ConnectionDetails)),
})

export const createProjectBranch = route('POST /projects/:project_id/branches', {
  summary: 'Create a branch, with its data as its parent has it now, or had it at a moment',
  tag: 'Branch',
  params: ProjectParams,
  body: NewBranch,
  status: 201,
  returns: CreatedBranch,
  errors: [
    'NOT_FOUND',
    'BRANCH_ALREADY_EXISTS',
    'BRANCHES_LIMIT_EXCEEDED',
    'ENDPOINTS_LIMIT_EXCEEDED',
    ...QUOTA_ERRORS,
    ...REFUSALS,
  ],
})
  .ask(({ params, body }, context) => lookAtParent(context, params.project_id, body))
  .handle(async ({ params, body }, context, look) =>
    createdView(context, await createBranch(context, params.project_id, body, look)),
  )

/** A new branch as clients see it. */
export function createdView(context: RequestContext, created: CreatedRows): Static<typeof CreatedBranch> {
  const { branch, endpoint, operations, roles, databases } = created
  const [role] = roles
  const [database] = databases
  const only = endpoint && role && database && roles.length === 1 && databases.length === 1
  return {
    branch: branchView(branch),
    endpoints: endpoint ? [endpointView(endpoint, context.config)] : [],
    operations: operations.map((each) => operationView(each)),
    roles: roles.map((each) => roleView(each)),
    databases: databases.map(databaseView),
    ...(only && {
      connection_uris: [connectionDetails(context, endpoint, role.name, passwordOf(context, role), database.name)],
    }),
  }
}
