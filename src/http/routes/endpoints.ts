import { QUOTA_ERRORS } from '../../errors.ts'
import { type Static, Type } from 'typebox'
import { listEndpoints } from '../../catalog/endpoint.ts'
import type { ChangedEndpoint } from '../../commands/changed.ts'
import { createEndpoint } from '../../commands/create_endpoint.ts'
import { deleteEndpoint } from '../../commands/delete_endpoint.ts'
import { lockedProject, requireBranch, requireEndpoint, requireProject } from '../../commands/require.ts'
import type { ErrorCode } from '../../errors.ts'
import { Endpoint, endpointView } from '../../views/endpoint.ts'
import { EndpointSettings, Provisioner } from '../../views/endpoint_settings.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { type RequestContext, route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'

const Name = Type.String({ maxLength: 64 })

/** Attributes of an endpoint in requests; named as in its view. */
export const EndpointAttributes = {
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer()),
  settings: Type.Optional(EndpointSettings),
  name: Type.Optional(Name),
  disabled: Type.Optional(Type.Boolean()),
  pooler_enabled: Type.Optional(Type.Boolean()),
  pooler_mode: Type.Optional(Type.String()),
  passwordless_access: Type.Optional(Type.Boolean()),
  provisioner: Type.Optional(Provisioner),
}

/** Attributes of a new endpoint, in each request that creates one. */
export const NewEndpoint = Type.Object({
  type: Type.String(),
  region_id: Type.Optional(Type.String()),
  ...EndpointAttributes,
})

/** Errors of a request with attributes of an endpoint. */
export const REFUSALS: readonly ErrorCode[] = [
  'COMPUTE_SIZE_INCOMPLETE',
  'COMPUTE_SIZE_INVERTED',
  'COMPUTE_SIZE_NOT_SUPPORTED',
  'AUTOSCALING_RANGE_NOT_SUPPORTED',
  'PLAN_DOES_NOT_ALLOW',
  'ENDPOINT_TYPE_NOT_SUPPORTED',
  'SUSPEND_TIMEOUT_NOT_SUPPORTED',
  'PG_SETTINGS_NOT_ALLOWED',
  'NOT_ALLOWED',
]

export const EndpointParams = Type.Object({ project_id: Type.String(), endpoint_id: Type.String() })
export const EndpointAndOperations = Type.Object({ endpoint: Endpoint, operations: Type.Array(Operation) })

/** The response to a change of an endpoint. */
export const endpointChanged = (
  { config }: RequestContext,
  { endpoint, operations }: ChangedEndpoint,
  shown?: Parameters<typeof endpointView>[2],
): Static<typeof EndpointAndOperations> => ({
  endpoint: endpointView(endpoint, config, shown),
  operations: operations.map((each) => operationView(each)),
})

export const createProjectEndpoint = route('POST /projects/:project_id/endpoints', {
  summary: 'Create a compute endpoint',
  tag: 'Endpoint',
  params: ProjectParams,
  body: Type.Object({ endpoint: Type.Interface([NewEndpoint], { branch_id: Type.String() }) }),
  status: 201,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'ENDPOINTS_LIMIT_EXCEEDED', ...QUOTA_ERRORS, ...REFUSALS],
}).handle(async ({ params, body: { endpoint } }, context) => {
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, endpoint.branch_id)
  return endpointChanged(context, await createEndpoint(context, project, branch, endpoint))
})

export const listProjectEndpoints = route('GET /projects/:project_id/endpoints', {
  summary: 'List the compute endpoints of a project',
  tag: 'Endpoint',
  params: ProjectParams,
  query: Type.Object({
    branch_ids: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), { maxItems: 200, description: 'Only those of these branches' }),
    ),
  }),
  returns: Type.Object({ endpoints: Type.Array(Endpoint) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  // A list arrives as repeated parameters, or as one with commas.
  const branchIds = query.branch_ids?.flatMap((each) => each.split(','))
  const endpoints = await listEndpoints(context.db, context.caller.account.id, params.project_id, branchIds)
  // Only an empty list needs a second query, to tell an empty project from a missing one.
  if (endpoints.length === 0) await requireProject(context, params.project_id)
  return { endpoints: endpoints.map((endpoint) => endpointView(endpoint, context.config, { gone: true })) }
})

export const getEndpoint = route('GET /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Get a compute endpoint',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: Type.Object({ endpoint: Endpoint }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { endpoint: endpointView(await requireEndpoint(context, params), context.config) }
})

export const deleteProjectEndpoint = route('DELETE /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Delete a compute endpoint',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) =>
  endpointChanged(context, await deleteEndpoint(context, params), { gone: true }),
)
