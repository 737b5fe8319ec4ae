import { type Static, Type } from 'typebox'
import {
  type Endpoint as EndpointRow,
  findBranchEndpoint,
  findProjectEndpoint,
  insertEndpoint,
  listEndpoints,
  type ShownEndpoint,
  lockEndpoint,
} from '../../catalog/endpoint.ts'
import type { Branch } from '../../catalog/branch.ts'
import type { Db } from '../../catalog/catalog.ts'
import { cancelUnbegun, type Operation as OperationRow } from '../../catalog/operation.ts'
import type { Project } from '../../catalog/project.ts'
import type { Config } from '../../config.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { newEndpointId } from '../../ids.ts'
import { removeEndpoint } from '../../operations/removal.ts'
import { queueStart } from '../../operations/start_compute.ts'
import { proxyHost } from '../../public_address.ts'
import { requireSize, requireSuspendTimeout, SMALLEST } from '../compute_size.ts'
import {
  EndpointSettings,
  Provisioner,
  requireNoPgbouncer,
  requireNoPreload,
  requireProvisioner,
  ShownEndpointSettings,
  shownSettings,
} from '../endpoint_settings.ts'
import { requirePgSettings } from '../pg_settings.ts'
import { lockedProject, requireBranch, requireProject, requireRegion } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Operation, presentOperation } from './operations.ts'

export const State = Type.Union([Type.Literal('init'), Type.Literal('active'), Type.Literal('idle')])

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
    settings: ShownEndpointSettings,
    pooler_enabled: Type.Boolean(),
    pooler_mode: Type.Literal('transaction'),
    disabled: Type.Boolean(),
    passwordless_access: Type.Boolean(),
    provisioner: Provisioner,
    creation_source: Type.String(),
    last_active: Type.Optional(Type.String({ format: 'date-time' })),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
    suspended_at: Type.Optional(Type.String({ format: 'date-time' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Endpoint' },
)

/**
 * An endpoint as clients see it. `pending_state` says where it is on its way to; after an update (`settled`) also where it stays, and in
 * lists and after a deletion (`gone`) never.
 */
export function presentEndpoint(
  row: ShownEndpoint,
  config: Config,
  { settled = false, gone = false }: { readonly settled?: boolean; readonly gone?: boolean } = {},
): Static<typeof Endpoint> {
  const { settings, provisioner } = shownSettings(row)
  const pending = gone ? undefined : (row.pending_state ?? (settled ? row.current_state : undefined))
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
    ...(pending && { pending_state: pending }),
    settings,
    pooler_enabled: row.pooler_enabled,
    pooler_mode: 'transaction',
    disabled: row.disabled,
    passwordless_access: row.passwordless_access,
    provisioner,
    creation_source: row.creation_source,
    ...(row.last_active && { last_active: row.last_active }),
    ...(row.started_at && { started_at: row.started_at }),
    ...(row.suspended_at && { suspended_at: row.suspended_at }),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

const Name = Type.String({ maxLength: 64 })

/** What may be asked of an endpoint, new or not; the same names as in what it is presented as. */
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

/** What may be asked of a new endpoint, wherever one is made. */
export const NewEndpoint = Type.Object({
  type: Type.String(),
  region_id: Type.Optional(Type.String()),
  ...EndpointAttributes,
})

type Asked = Omit<Static<typeof NewEndpoint>, 'type'> & { readonly type?: string }

/** Makes the endpoint of a branch and queues its first start. Errors: as the rules of sizes and settings say, ENDPOINTS_LIMIT_EXCEEDED. */
export async function addEndpoint(
  { db, config, caller }: RequestContext,
  project: Project,
  branch: Branch,
  asked: Asked,
): Promise<{ endpoint: EndpointRow; operations: OperationRow[] }> {
  if (asked.type !== undefined && asked.type !== 'read_write') throw new AppError('ENDPOINT_TYPE_NOT_SUPPORTED')
  if (await findBranchEndpoint(db, branch.id)) throw new AppError('ENDPOINTS_LIMIT_EXCEEDED')
  const defaults = project.default_endpoint_settings
  const size = requireSize(caller.account, asked, requireSize(caller.account, defaults, SMALLEST))
  const timeout = asked.suspend_timeout_seconds ?? defaults.suspend_timeout_seconds ?? 0
  requireSuspendTimeout(config, timeout)
  requireRegion(config, asked.region_id)
  const settings = { pg_settings: defaults.pg_settings ?? {}, ...asked.settings }
  const provisioner = asked.provisioner ?? defaults.provisioner
  await requireAttributes(db, { ...asked, settings })
  const inserted = await insertEndpoint(db, {
    id: newEndpointId(),
    account_id: project.account_id,
    project_id: project.id,
    branch_id: branch.id,
    name: asked.name ?? null,
    min_cu: size.min,
    max_cu: size.max,
    suspend_timeout_seconds: timeout,
    settings: { ...settings, ...(provisioner !== undefined && { provisioner }) },
    disabled: asked.disabled ?? false,
    pooler_enabled: asked.pooler_enabled ?? false,
    passwordless_access: asked.passwordless_access ?? false,
  })
  if (inserted.disabled) return { endpoint: inserted, operations: [] }
  const operation = await queueStart(db, inserted, 'request')
  return { endpoint: { ...inserted, pending_state: 'active' }, operations: [operation] }
}

/** Errors: PG_SETTINGS_NOT_ALLOWED, and NOT_ALLOWED for what there is not: pooler modes, libraries, settings of PgBouncer. */
export async function requireAttributes(
  db: Db,
  { settings, pooler_mode: mode, provisioner }: Pick<Asked, 'settings' | 'pooler_mode' | 'provisioner'>,
): Promise<void> {
  if (mode !== undefined && mode !== 'transaction')
    throw new AppError('NOT_ALLOWED', `pooler_mode is ${mode}; the only one there is is transaction.`)
  requireProvisioner(provisioner)
  requireNoPreload(settings?.preload_libraries)
  requireNoPgbouncer(settings?.pgbouncer_settings)
  await requirePgSettings(db, settings?.pg_settings)
}

/** How what is asked of an endpoint can be refused. */
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

const ProjectId = Type.Object({ project_id: Type.String() })
export const EndpointId = Type.Object({ project_id: Type.String(), endpoint_id: Type.String() })
export const EndpointAndOperations = Type.Object({ endpoint: Endpoint, operations: Type.Array(Operation) })

export const createEndpoint = route('POST /projects/:project_id/endpoints', {
  summary: 'Create a compute endpoint',
  tag: 'Endpoint',
  params: ProjectId,
  body: Type.Object({ endpoint: Type.Interface([NewEndpoint], { branch_id: Type.String() }) }),
  status: 201,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'ENDPOINTS_LIMIT_EXCEEDED', ...REFUSALS],
}).handle(async ({ params, body }, context) => {
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, body.endpoint.branch_id)
  const { endpoint, operations } = await addEndpoint(context, project, branch, body.endpoint)
  return {
    endpoint: presentEndpoint(endpoint, context.config),
    operations: operations.map((each) => presentOperation(each)),
  }
})

export const listProjectEndpoints = route('GET /projects/:project_id/endpoints', {
  summary: 'List the compute endpoints of a project',
  tag: 'Endpoint',
  params: ProjectId,
  returns: Type.Object({ endpoints: Type.Array(Endpoint) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const endpoints = await listEndpoints(context.db, context.caller.account.id, params.project_id)
  // One query for the many; that of none needs another to tell an empty project from one that is not there.
  if (endpoints.length === 0) await requireProject(context, params.project_id)
  return { endpoints: endpoints.map((endpoint) => presentEndpoint(endpoint, context.config, { gone: true })) }
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

export const deleteProjectEndpoint = route('DELETE /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Delete a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const endpoint = await lockedEndpoint(context, params)
  await cancelUnbegun(context.db, endpoint.project_id, { endpointId: endpoint.id }, 'the endpoint was deleted')
  await removeEndpoint(context.db, endpoint)
  return { endpoint: presentEndpoint(endpoint, context.config, { gone: true }), operations: [] }
})

/** The same for a request that changes it: project and endpoint are locked until its transaction ends. Errors: NOT_FOUND, LOCKED. */
export async function lockedEndpoint(
  context: RequestContext,
  params: { project_id: string; endpoint_id: string },
): Promise<EndpointRow> {
  await lockedProject(context, params.project_id)
  const { id } = await requireEndpoint(context, params)
  return (await lockEndpoint(context.db, id)) as EndpointRow
}

/** An endpoint of a project that is the caller's. Errors: NOT_FOUND. */
export async function requireEndpoint(
  { db }: RequestContext,
  params: { project_id: string; endpoint_id: string },
): Promise<EndpointRow> {
  const endpoint = await findProjectEndpoint(db, params.project_id, params.endpoint_id)
  if (!endpoint) throw new AppError('NOT_FOUND', `endpoint ${params.endpoint_id} not found`)
  return endpoint
}
