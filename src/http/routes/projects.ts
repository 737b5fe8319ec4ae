import { type Static, Type } from 'typebox'
import { lockAccount } from '../../catalog/account.ts'
import { insertBranch } from '../../catalog/branch.ts'
import { whyNoEgress } from '../../catalog/egress.ts'
import { PROVISIONERS } from '../../catalog/endpoint.ts'
import {
  countProjects,
  insertProject,
  listRecoverable,
  listProjects,
  type Project as ProjectRow,
  updateProject,
} from '../../catalog/project.ts'
import { projectTransfer } from '../../catalog/traffic.ts'
import { AppError } from '../../errors.ts'
import { newBranchId, newProjectId } from '../../ids.ts'
import { createTimeline } from '../../operations/create_timeline.ts'
import { requestOperation } from '../../operations/request.ts'
import { proxyHost } from '../../public_address.ts'
import { subscriptionType } from '../billing_account.ts'
import { requireSize, requireSuspendTimeout, SMALLEST } from '../compute_size.ts'
import { ConnectionDetails, connectionDetails } from '../connection_details.ts'
import { PgbouncerSettings, Provisioner, requireNoPgbouncer, requireProvisioner } from '../endpoint_settings.ts'
import { requirePgSettings } from '../pg_settings.ts'
import { requirePgVersion } from '../pg_version.ts'
import {
  applyProjectSettings,
  ProjectSettings,
  requireProjectSettings,
  ShownProjectSettings,
  shownProjectSettings,
} from '../project_settings.ts'
import { lockedProject, requireOrganization, requireProject, requireRegion } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Branch, presentBranch } from './branches.ts'
import { addDatabase, Database, presentDatabase } from './databases.ts'
import { addEndpoint, Endpoint, presentEndpoint, REFUSALS } from './endpoints.ts'
import { Operation, presentOperation } from './operations.ts'
import { addRole, presentRole, Role } from './roles.ts'

const DefaultEndpointSettings = Type.Object({
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer()),
  pg_settings: Type.Optional(Type.Record(Type.String(), Type.String())),
  pgbouncer_settings: Type.Optional(PgbouncerSettings),
})

const ListItem = {
  id: Type.String(),
  platform_id: Type.String(),
  region_id: Type.String(),
  name: Type.String(),
  provisioner: Provisioner,
  default_endpoint_settings: DefaultEndpointSettings,
  settings: ShownProjectSettings,
  pg_version: Type.Integer(),
  proxy_host: Type.String(),
  branch_logical_size_limit: Type.Integer(),
  branch_logical_size_limit_bytes: Type.Integer(),
  store_passwords: Type.Boolean(),
  cpu_used_sec: Type.Integer(),
  creation_source: Type.String(),
  history_retention_seconds: Type.Integer(),
  owner_id: Type.String(),
  org_id: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
}

const ProjectListItem = Type.Object(
  {
    ...ListItem,
    active_time: Type.Integer(),
    deleted_at: Type.Optional(Type.String({ format: 'date-time' })),
    recoverable_until: Type.Optional(Type.String({ format: 'date-time' })),
  },
  { $id: 'ProjectListItem' },
)

export const Project = Type.Object(
  {
    ...ListItem,
    data_storage_bytes_hour: Type.Integer(),
    data_transfer_bytes: Type.Integer(),
    written_data_bytes: Type.Integer(),
    compute_time_seconds: Type.Integer(),
    active_time_seconds: Type.Integer(),
    egress_missing: Type.Optional(
      Type.String({ description: 'Neap only. Why its computes reach no network although enable_egress is set' }),
    ),
    consumption_period_start: Type.String({ format: 'date-time' }),
    consumption_period_end: Type.String({ format: 'date-time' }),
    owner: Type.Optional(
      Type.Object({
        email: Type.String(),
        name: Type.String(),
        branches_limit: Type.Integer(),
        subscription_type: Type.String(),
      }),
    ),
  },
  { $id: 'Project' },
)

function presentListItem(row: ProjectRow, { config, caller }: RequestContext): Static<typeof ProjectListItem> {
  const { provisioner = PROVISIONERS[0], ...defaults } = row.default_endpoint_settings
  return {
    id: row.id,
    platform_id: 'neap',
    region_id: row.region_id,
    name: row.name,
    provisioner,
    default_endpoint_settings: defaults,
    settings: shownProjectSettings(row),
    pg_version: row.pg_version,
    proxy_host: proxyHost(config),
    branch_logical_size_limit: 0,
    branch_logical_size_limit_bytes: 0,
    store_passwords: true,
    active_time: 0,
    cpu_used_sec: 0,
    creation_source: 'console',
    history_retention_seconds: row.history_retention_seconds,
    owner_id: row.account_id,
    org_id: caller.account.organization_id,
    created_at: row.created_at,
    updated_at: row.updated_at,
    ...(row.deleted_at && { deleted_at: row.deleted_at }),
    ...(row.recoverable_until && { recoverable_until: row.recoverable_until }),
  }
}

/** A project as clients see it. Other consumption than its transfer is not measured yet and stands at zero, as the clients' types require the fields. */
export async function presentProject(row: ProjectRow, context: RequestContext): Promise<Static<typeof Project>> {
  const { active_time, deleted_at: _deleted, recoverable_until: _until, ...common } = presentListItem(row, context)
  const egressMissing = row.settings.enable_egress ? await whyNoEgress(context.db) : undefined
  const now = new Date()
  const monthBegin = (months: number) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months)).toISOString()
  return {
    ...common,
    data_storage_bytes_hour: 0,
    data_transfer_bytes: await projectTransfer(context.db, row.id),
    written_data_bytes: 0,
    compute_time_seconds: 0,
    active_time_seconds: active_time,
    ...(egressMissing !== undefined && { egress_missing: egressMissing }),
    consumption_period_start: monthBegin(0),
    consumption_period_end: monthBegin(1),
  }
}

const ProjectChanges = {
  name: Type.Optional(Type.String({ maxLength: 256 })),
  settings: Type.Optional(ProjectSettings),
  history_retention_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_592_000 })),
  default_endpoint_settings: Type.Optional(DefaultEndpointSettings),
}

const NewProject = Type.Object({
  project: Type.Object({
    ...ProjectChanges,
    region_id: Type.Optional(Type.String()),
    org_id: Type.Optional(Type.String()),
    pg_version: Type.Optional(Type.Integer({ description: '15 to 18; 18 unless said' })),
    provisioner: Type.Optional(Provisioner),
    store_passwords: Type.Optional(Type.Boolean()),
    autoscaling_limit_min_cu: Type.Optional(Type.Number()),
    autoscaling_limit_max_cu: Type.Optional(Type.Number()),
    branch: Type.Optional(
      Type.Object({
        name: Type.Optional(Type.String({ maxLength: 256 })),
        role_name: Type.Optional(Type.String()),
        database_name: Type.Optional(Type.String()),
        annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
      }),
    ),
  }),
})

/** What endpoints of a project have where they do not say otherwise. Errors: REFUSALS of endpoints. */
async function requireDefaults(
  { db, config, caller }: RequestContext,
  defaults: Static<typeof DefaultEndpointSettings>,
): Promise<void> {
  requireSize(caller.account, defaults, SMALLEST)
  requireSuspendTimeout(config, defaults.suspend_timeout_seconds ?? 0)
  requireNoPgbouncer(defaults.pgbouncer_settings)
  await requirePgSettings(db, defaults.pg_settings)
}

/** Room for one project more, or for those `made` already; until this transaction ends nobody else takes it. Errors: PROJECTS_LIMIT_EXCEEDED. */
export async function requireRoomForProject({ db, config, caller }: RequestContext, made = 0): Promise<void> {
  await lockAccount(db, caller.account.id)
  const most = config.projectsLimit + made
  if ((await countProjects(db, caller.account.id, most)) < most) return
  throw new AppError(
    'PROJECTS_LIMIT_EXCEEDED',
    `The account has ${config.projectsLimit} projects, as many as it may. Delete one, or raise NEAP_PROJECTS_LIMIT.`,
  )
}

/** Lists of addresses and Postgres settings may be long. */
const PROJECT_BYTES = 32 * 1024

export const createProject = route('POST /projects', {
  summary: 'Create a project with its default branch, a role, a database and an endpoint',
  tag: 'Project',
  body: NewProject,
  bodyLimit: PROJECT_BYTES,
  status: 201,
  returns: Type.Object({
    project: Project,
    connection_uris: Type.Array(ConnectionDetails),
    roles: Type.Array(Role),
    databases: Type.Array(Database),
    operations: Type.Array(Operation),
    branch: Branch,
    endpoints: Type.Array(Endpoint),
  }),
  errors: [...REFUSALS, 'NOT_FOUND', 'PROJECTS_LIMIT_EXCEEDED'],
}).handle(async ({ body }, context) => {
  const { db, config, caller } = context
  const asked = body.project
  const { autoscaling_limit_min_cu, autoscaling_limit_max_cu } = asked
  const defaults = asked.default_endpoint_settings ?? {
    ...(autoscaling_limit_min_cu !== undefined && { autoscaling_limit_min_cu }),
    ...(autoscaling_limit_max_cu !== undefined && { autoscaling_limit_max_cu }),
  }
  await requireDefaults(context, defaults)
  requireProjectSettings(asked.settings)
  requireRegion(config, asked.region_id)
  requireProvisioner(asked.provisioner)
  const pg_version = await requirePgVersion(db, asked.pg_version)
  requireOrganization(context, asked.org_id)
  if (asked.store_passwords === false)
    throw new AppError('NOT_ALLOWED', 'store_passwords cannot be false: Neap keeps role passwords, encrypted.')
  await requireRoomForProject(context)
  const id = newProjectId()
  const project = await insertProject(db, {
    id,
    account_id: caller.account.id,
    name: asked.name ?? id,
    region_id: config.region,
    pg_version,
    settings: asked.settings ?? {},
    default_endpoint_settings: { ...defaults, ...(asked.provisioner && { provisioner: asked.provisioner }) },
    history_retention_seconds: asked.history_retention_seconds ?? 86_400,
  })
  const branch = await insertBranch(db, {
    id: newBranchId(),
    account_id: project.account_id,
    project_id: id,
    parent_id: null,
    name: asked.branch?.name ?? 'main',
    is_default: true,
    protected: false,
    annotation: asked.branch?.annotations ?? {},
  })
  const databaseName = asked.branch?.database_name ?? 'neondb'
  const { role, password } = await addRole(context, branch.id, asked.branch?.role_name ?? `${databaseName}_owner`)
  const database = await addDatabase(context, branch.id, databaseName, role.name)
  const made = await requestOperation(
    db,
    createTimeline,
    { account_id: project.account_id, project_id: id, branch_id: branch.id },
    {},
  )
  const { endpoint, operations } = await addEndpoint(context, project, branch, {})
  return {
    project: await presentProject(project, context),
    connection_uris: [connectionDetails(context, endpoint, role.name, password, database.name)],
    roles: [presentRole(role, password)],
    databases: [presentDatabase(database)],
    operations: [made, ...operations].map((each) => presentOperation(each)),
    branch: presentBranch(branch),
    endpoints: [presentEndpoint(endpoint, config)],
  }
})

export const listAccountProjects = route('GET /projects', {
  summary: 'List projects',
  tag: 'Project',
  anyProject: true,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 400, default: 10 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
    search: Type.Optional(Type.String({ description: 'Only those with this in their name or id' })),
    org_id: Type.Optional(Type.String()),
    recoverable: Type.Optional(Type.Boolean({ description: 'Deleted ones that can still be recovered' })),
  }),
  returns: Type.Object({
    projects: Type.Array(ProjectListItem),
    applications: Type.Object({}),
    integrations: Type.Object({}),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ query }, context) => {
  requireOrganization(context, query.org_id)
  const { account, projectId } = context.caller
  const projects = query.recoverable
    ? await listRecoverable(context.db, account.id, query.limit ?? 10, query.cursor, projectId)
    : await listProjects(context.db, account.id, query.limit ?? 10, query.cursor, query.search, projectId)
  const last = projects.at(-1)
  return {
    projects: projects.map((project) => presentListItem(project, context)),
    applications: {},
    integrations: {},
    ...(last && { pagination: { cursor: last.id } }),
  }
})

export const listSharedProjects = route('GET /projects/shared', {
  summary: 'List projects that others share with this account: none, since projects are not shared',
  tag: 'Project',
  anyProject: true,
  returns: Type.Object({ projects: Type.Array(ProjectListItem) }),
  errors: [],
}).handle(async () => ({ projects: [] }))

export const ProjectId = Type.Object({ project_id: Type.String() })

export const getProject = route('GET /projects/:project_id', {
  summary: 'Get a project',
  tag: 'Project',
  params: ProjectId,
  returns: Type.Object({ project: Project }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { name, email, plan } = context.caller.account
  const project = await presentProject(await requireProject(context, params.project_id), context)
  const owner = { name, email, branches_limit: context.config.branchesLimit, subscription_type: subscriptionType(plan) }
  return { project: { ...project, owner } }
})

export const updateAccountProject = route('PATCH /projects/:project_id', {
  summary: 'Update a project; what is not given stays. Defaults hold for endpoints made from now on',
  tag: 'Project',
  params: ProjectId,
  body: Type.Object({ project: Type.Object(ProjectChanges) }),
  bodyLimit: PROJECT_BYTES,
  returns: Type.Object({ project: Project, operations: Type.Array(Operation) }),
  errors: ['NOT_FOUND', ...REFUSALS],
}).handle(async ({ params, body }, context) => {
  const { name, settings, history_retention_seconds, default_endpoint_settings } = body.project
  const before = await lockedProject(context, params.project_id)
  requireProjectSettings(settings)
  const defaults = default_endpoint_settings && { ...before.default_endpoint_settings, ...default_endpoint_settings }
  if (defaults) await requireDefaults(context, defaults)
  const project = await updateProject(context.db, before.id, {
    name,
    settings: settings && { ...before.settings, ...settings },
    history_retention_seconds,
    default_endpoint_settings: defaults,
  })
  const operations = await applyProjectSettings(context, before, project)
  return { project: await presentProject(project, context), operations }
})
