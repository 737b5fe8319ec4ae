import { Type } from 'typebox'
import { findDefaultBranch } from '../../catalog/branch.ts'
import { findDatabase } from '../../catalog/database.ts'
import { type Endpoint, findBranchEndpoint, findProjectEndpoint } from '../../catalog/endpoint.ts'
import { findRole } from '../../catalog/role.ts'
import { readBranch } from '../../commands/look.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { knownPassword } from '../../commands/role_password.ts'
import { AppError } from '../../errors.ts'
import { connectionUri } from '../../views/connection.ts'
import { type RequestContext, route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'

export const getConnectionUri = route('GET /projects/:project_id/connection_uri', {
  summary: 'A URI to connect with, password included unless a person is to let its clients in',
  tag: 'Project',
  scope: 'write',
  reveals: true,
  params: ProjectParams,
  query: Type.Object({
    database_name: Type.String(),
    role_name: Type.String(),
    branch_id: Type.Optional(Type.String()),
    endpoint_id: Type.Optional(Type.String()),
    pooled: Type.Optional(Type.Boolean()),
    passwordless: Type.Optional(
      Type.Boolean({ description: 'Without a password: its clients wait for approval. Needs passwordless_access' }),
    ),
  }),
  returns: Type.Object({ uri: Type.String() }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, query }, context) => {
  const { db, config, namesResolve } = context
  const project = await requireProject(context, params.project_id)
  const endpoint = await endpointFor(context, project.id, query)
  if (query.passwordless) requirePasswordless(endpoint, query.pooled ?? false)
  const { branch, seen } = await readBranch(context, { project_id: project.id, branch_id: endpoint.branch_id })
  const role = await findRole(db, endpoint.branch_id, query.role_name)
  if (!role) throw new AppError('NOT_FOUND', `role ${query.role_name} not found`)
  const database = await findDatabase(db, endpoint.branch_id, query.database_name)
  if (!database) throw new AppError('NOT_FOUND', `database ${query.database_name} not found`)
  return {
    uri: connectionUri(config, namesResolve(), {
      endpointId: endpoint.id,
      role: role.name,
      password: query.passwordless ? undefined : await knownPassword(context, branch, role, seen),
      database: database.name,
      pooled: query.pooled ?? false,
    }),
  }
})

/** Errors: NOT_ALLOWED. */
function requirePasswordless({ id, passwordless_access }: Endpoint, pooled: boolean): void {
  if (!passwordless_access)
    throw new AppError(
      'NOT_ALLOWED',
      `Passwordless access is off at ${id}: turn it on (neap endpoints update --passwordless).`,
    )
  if (pooled) throw new AppError('NOT_ALLOWED', 'Clients without a password are not pooled: leave pooled out.')
}

async function endpointFor(
  context: RequestContext,
  projectId: string,
  query: { branch_id?: string; endpoint_id?: string },
) {
  if (query.endpoint_id) {
    const endpoint = await findProjectEndpoint(context.db, projectId, query.endpoint_id)
    if (!endpoint) throw new AppError('NOT_FOUND', `endpoint ${query.endpoint_id} not found`)
    return endpoint
  }
  const branch = query.branch_id
    ? await requireBranch(context, projectId, query.branch_id)
    : await findDefaultBranch(context.db, projectId)
  const endpoint = branch && (await findBranchEndpoint(context.db, branch.id))
  if (!endpoint)
    throw new AppError(
      'NOT_FOUND',
      `The branch has no endpoint to connect through. Create one: POST /projects/${projectId}/endpoints`,
    )
  return endpoint
}
