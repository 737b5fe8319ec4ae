import { type Static, Type } from 'typebox'
import {
  deleteEndpoint,
  deleteEndpointRow,
  type Endpoint as EndpointRow,
  findBranchEndpoint,
  findProjectEndpoint,
  insertEndpoint,
  listEndpoints,
  updateEndpointSettings,
} from '../../catalog/endpoint.ts'
import type { Branch } from '../../catalog/branch.ts'
import { cancelUnbegun, type Operation as OperationRow } from '../../catalog/operation.ts'
import type { Project } from '../../catalog/project.ts'
import type { Config } from '../../config.ts'
import { AppError } from '../../errors.ts'
import { newEndpointId } from '../../ids.ts'
import { queueStart } from '../../operations/start_compute.ts'
import { queueSuspend } from '../../operations/suspend_compute.ts'
import { requireSize, requireSuspendTimeout } from '../compute_size.ts'
import { proxyHost } from '../names.ts'
import { requireSafePgSettings } from '../pg_settings.ts'
import { lockedProject, requireBranch, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation, presentOperation } from './operations.ts'

const State = Type.Union([Type.Literal('init'), Type.Literal('active'), Type.Literal('idle')])
const Settings = Type.Object({ pg_settings: Type.Optional(Type.Record(Type.String(), Type.String())) })

export const Endpoint = Type.Object(
  {
    id: Type.String(),
    host: Type.String(),
    proxy_host: Type.String(),
    project_id: Type.String(),
    branch_id: Type.String(),
    name: Type.Optional(Type.String()),
    region_id: Type.String(),
    type: Type.Literal('read_write'),
    autoscaling_limit_min_cu: Type.Number(),
    autoscaling_limit_max_cu: Type.Number(),
    suspend_timeout_seconds: Type.Integer(),
    current_state: State,
    pending_state: Type.Optional(State),
    settings: Settings,
    pooler_enabled: Type.Boolean(),
    pooler_mode: Type.Literal('transaction'),
    disabled: Type.Boolean(),
    passwordless_access: Type.Boolean(),
    provisioner: Type.String(),
    creation_source: Type.String(),
    last_active: Type.Optional(Type.String({ format: 'date-time' })),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
    suspended_at: Type.Optional(Type.String({ format: 'date-time' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Endpoint' },
)

/** An endpoint as clients see it; in lists and after a deletion without `pending_state`. */
export function presentEndpoint(
  row: EndpointRow,
  config: Config,
  options: { pending: boolean } = { pending: true },
): Static<typeof Endpoint> {
  return {
    id: row.id,
    host: `${row.id}.${proxyHost(config)}`,
    proxy_host: proxyHost(config),
    project_id: row.project_id,
    branch_id: row.branch_id,
    ...(row.name && { name: row.name }),
    region_id: config.region,
    type: 'read_write',
    autoscaling_limit_min_cu: row.min_cu,
    autoscaling_limit_max_cu: row.max_cu,
    suspend_timeout_seconds: row.suspend_timeout_seconds,
    current_state: row.current_state,
    ...(options.pending && row.pending_state && { pending_state: row.pending_state }),
    settings: row.settings,
    pooler_enabled: row.pooler_enabled,
    pooler_mode: 'transaction',
    disabled: row.disabled,
    passwordless_access: row.passwordless_access,
    provisioner: 'k8s-pod',
    creation_source: row.creation_source,
    ...(row.last_active && { last_active: row.last_active }),
    ...(row.started_at && { started_at: row.started_at }),
    ...(row.suspended_at && { suspended_at: row.suspended_at }),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

/** What may be asked of a new endpoint, wherever one is made. */
export const NewEndpoint = Type.Object({
  type: Type.String(),
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer()),
  settings: Type.Optional(Settings),
  name: Type.Optional(Type.String({ maxLength: 64 })),
  disabled: Type.Optional(Type.Boolean()),
})

/** Makes the endpoint of a branch and queues its first start. Errors: NOT_ALLOWED, ENDPOINTS_LIMIT_EXCEEDED. */
export async function addEndpoint(
  { db, config }: RequestContext,
  project: Project,
  branch: Branch,
  asked: Omit<Static<typeof NewEndpoint>, 'type'>,
): Promise<{ endpoint: EndpointRow; operations: OperationRow[] }> {
  if (await findBranchEndpoint(db, branch.id)) throw new AppError('ENDPOINTS_LIMIT_EXCEEDED')
  const defaults = project.default_endpoint_settings
  const size = requireSize(asked, requireSize(defaults, { min: 0.25, max: 0.25 }))
  const timeout = asked.suspend_timeout_seconds ?? defaults.suspend_timeout_seconds ?? 0
  requireSuspendTimeout(config, timeout)
  requireSafePgSettings(asked.settings?.pg_settings)
  const inserted = await insertEndpoint(db, {
    id: newEndpointId(),
    account_id: project.account_id,
    project_id: project.id,
    branch_id: branch.id,
    name: asked.name ?? null,
    min_cu: size.min,
    max_cu: size.max,
    suspend_timeout_seconds: timeout,
    settings: asked.settings ?? (defaults.pg_settings ? { pg_settings: defaults.pg_settings } : {}),
    disabled: asked.disabled ?? false,
  })
  if (inserted.disabled) return { endpoint: inserted, operations: [] }
  const operation = await queueStart(db, inserted, 'request')
  return { endpoint: { ...inserted, pending_state: 'active' }, operations: [operation] }
}

/** Takes an endpoint out of service for ever; its compute is stopped by the operation that this queues. */
export async function removeEndpoint(db: RequestContext['db'], endpoint: EndpointRow): Promise<void> {
  await deleteEndpoint(db, endpoint.id)
  if (endpoint.current_state === 'idle' && endpoint.pending_state === null) return deleteEndpointRow(db, endpoint.id)
  await queueSuspend(db, endpoint, 'delete')
}

const ProjectId = Type.Object({ project_id: Type.String() })
const EndpointId = Type.Object({ project_id: Type.String(), endpoint_id: Type.String() })
const EndpointAndOperations = Type.Object({ endpoint: Endpoint, operations: Type.Array(Operation) })

export const createEndpoint = route('POST /projects/:project_id/endpoints', {
  summary: 'Create a compute endpoint',
  tag: 'Endpoint',
  params: ProjectId,
  body: Type.Object({ endpoint: Type.Interface([NewEndpoint], { branch_id: Type.String() }) }),
  status: 201,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'ENDPOINTS_LIMIT_EXCEEDED', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const project = await lockedProject(context, params.project_id)
  if (body.endpoint.type !== 'read_write')
    throw new AppError('NOT_ALLOWED', 'Only endpoints of the type read_write are supported.')
  const branch = await requireBranch(context, project.id, body.endpoint.branch_id)
  const { endpoint, operations } = await addEndpoint(context, project, branch, body.endpoint)
  return { endpoint: presentEndpoint(endpoint, context.config), operations: operations.map(presentOperation) }
})

export const listProjectEndpoints = route('GET /projects/:project_id/endpoints', {
  summary: 'List the compute endpoints of a project',
  tag: 'Endpoint',
  params: ProjectId,
  returns: Type.Object({ endpoints: Type.Array(Endpoint) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const endpoints = await listEndpoints(context.db, params.project_id)
  return { endpoints: endpoints.map((endpoint) => presentEndpoint(endpoint, context.config, { pending: false })) }
})

export const getEndpoint = route('GET /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Get a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: Type.Object({ endpoint: Endpoint }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { endpoint: presentEndpoint(await requireEndpoint(context, params), context.config) }
})

export const updateEndpoint = route('PATCH /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Update a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  body: Type.Object({
    endpoint: Type.Object({
      suspend_timeout_seconds: Type.Optional(Type.Integer()),
      disabled: Type.Optional(Type.Boolean()),
      name: Type.Optional(Type.String({ maxLength: 64 })),
    }),
  }),
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const { db, config } = context
  await lockedProject(context, params.project_id)
  const before = await requireEndpoint(context, params)
  const { suspend_timeout_seconds: timeout, disabled, name } = body.endpoint
  if (timeout !== undefined) requireSuspendTimeout(config, timeout)
  const endpoint = await updateEndpointSettings(db, before.id, {
    suspend_timeout_seconds: timeout,
    disabled,
    name,
  })
  const runs = before.current_state === 'active' || before.pending_state === 'active'
  if (disabled && runs)
    await cancelUnbegun(db, before.project_id, { endpointId: before.id }, 'the endpoint was disabled')
  const operations = disabled && runs ? [await queueSuspend(db, endpoint, 'request')] : []
  const pending_state = operations.length > 0 ? 'idle' : (endpoint.pending_state ?? endpoint.current_state)
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state }, config),
    operations: operations.map(presentOperation),
  }
})

export const deleteProjectEndpoint = route('DELETE /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Delete a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await lockedProject(context, params.project_id)
  const endpoint = await requireEndpoint(context, params)
  await cancelUnbegun(context.db, endpoint.project_id, { endpointId: endpoint.id }, 'the endpoint was deleted')
  await removeEndpoint(context.db, endpoint)
  return { endpoint: presentEndpoint(endpoint, context.config, { pending: false }), operations: [] }
})

export const startEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/start', {
  summary: 'Start a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  await lockedProject(context, params.project_id)
  const endpoint = await requireEndpoint(context, params)
  if (endpoint.disabled)
    throw new AppError('NOT_ALLOWED', 'The endpoint is disabled. Enable it first: PATCH it with disabled: false.')
  if (endpoint.current_state === 'active' && endpoint.pending_state === null)
    return { endpoint: presentEndpoint(endpoint, context.config), operations: [] }
  const operation = await queueStart(context.db, endpoint, 'request')
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state: 'active' }, context.config),
    operations: [presentOperation(operation)],
  }
})

export const suspendEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/suspend', {
  summary: 'Suspend a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await lockedProject(context, params.project_id)
  const endpoint = await requireEndpoint(context, params)
  if (endpoint.current_state === 'idle' && endpoint.pending_state === null)
    return { endpoint: presentEndpoint(endpoint, context.config), operations: [] }
  const operation = await queueSuspend(context.db, endpoint, 'request')
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state: 'idle' }, context.config),
    operations: [presentOperation(operation)],
  }
})

async function requireEndpoint(
  { db }: RequestContext,
  params: { project_id: string; endpoint_id: string },
): Promise<EndpointRow> {
  const endpoint = await findProjectEndpoint(db, params.project_id, params.endpoint_id)
  if (!endpoint) throw new AppError('NOT_FOUND', `endpoint ${params.endpoint_id} not found`)
  return endpoint
}
