import { type Static, Type } from 'typebox'
import { insertBranch } from '../../catalog/branch.ts'
import { cancelUnbegun } from '../../catalog/operation.ts'
import {
  deleteProject as markProjectDeleted,
  insertProject,
  listProjects,
  type Project as ProjectRow,
} from '../../catalog/project.ts'
import { newBranchId, newProjectId } from '../../ids.ts'
import { createTimeline } from '../../operations/create_timeline.ts'
import { deleteTenant } from '../../operations/delete_tenant.ts'
import { requestOperation } from '../../operations/request.ts'
import { requireSize, requireSuspendTimeout, SMALLEST } from '../compute_size.ts'
import { ConnectionDetails, connectionDetails } from '../connection_details.ts'
import { proxyHost } from '../names.ts'
import { requirePgSettings } from '../pg_settings.ts'
import { lockedProject, requireProject, requireRegion } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { Branch, presentBranch } from './branches.ts'
import { addDatabase, Database, presentDatabase } from './databases.ts'
import { addEndpoint, Endpoint, presentEndpoint } from './endpoints.ts'
import { Operation, presentOperation } from './operations.ts'
import { addRole, presentRole, Role } from './roles.ts'

const DefaultEndpointSettings = Type.Object({
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer()),
  pg_settings: Type.Optional(Type.Record(Type.String(), Type.String())),
})

export const Project = Type.Object(
  {
    id: Type.String(),
    platform_id: Type.String(),
    region_id: Type.String(),
    name: Type.String(),
    provisioner: Type.String(),
    default_endpoint_settings: DefaultEndpointSettings,
    settings: Type.Object({}, { additionalProperties: true }),
    pg_version: Type.Integer(),
    proxy_host: Type.String(),
    branch_logical_size_limit: Type.Integer(),
    branch_logical_size_limit_bytes: Type.Integer(),
    store_passwords: Type.Boolean(),
    creation_source: Type.String(),
    history_retention_seconds: Type.Integer(),
    owner_id: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Project' },
)

function presentProject(row: ProjectRow, { config }: RequestContext): Static<typeof Project> {
  return {
    id: row.id,
    platform_id: 'neap',
    region_id: row.region_id,
    name: row.name,
    provisioner: 'k8s-pod',
    default_endpoint_settings: row.default_endpoint_settings,
    settings: row.settings,
    pg_version: row.pg_version,
    proxy_host: proxyHost(config),
    branch_logical_size_limit: 0,
    branch_logical_size_limit_bytes: 0,
    store_passwords: true,
    creation_source: 'console',
    history_retention_seconds: row.history_retention_seconds,
    owner_id: row.account_id,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

const NewProject = Type.Object({
  project: Type.Object({
    name: Type.Optional(Type.String({ maxLength: 256 })),
    region_id: Type.Optional(Type.String()),
    pg_version: Type.Optional(Type.Integer({ minimum: 15, maximum: 18 })),
    history_retention_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_592_000 })),
    default_endpoint_settings: Type.Optional(DefaultEndpointSettings),
    branch: Type.Optional(
      Type.Object({
        name: Type.Optional(Type.String({ maxLength: 256 })),
        role_name: Type.Optional(Type.String()),
        database_name: Type.Optional(Type.String()),
      }),
    ),
  }),
})

export const createProject = route('POST /projects', {
  summary: 'Create a project with its default branch, a role, a database and an endpoint',
  tag: 'Project',
  body: NewProject,
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
  errors: ['NOT_ALLOWED'],
}).handle(async ({ body }, context) => {
  const { db, config, caller } = context
  const asked = body.project
  const defaults = asked.default_endpoint_settings ?? {}
  requireSize(caller.account, defaults, SMALLEST)
  requireSuspendTimeout(config, defaults.suspend_timeout_seconds ?? 0)
  await requirePgSettings(db, defaults.pg_settings)
  requireRegion(config, asked.region_id)
  const id = newProjectId()
  const project = await insertProject(db, {
    id,
    account_id: caller.account.id,
    name: asked.name ?? id,
    region_id: config.region,
    pg_version: asked.pg_version ?? 18,
    settings: {},
    default_endpoint_settings: defaults,
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
    project: presentProject(project, context),
    connection_uris: [await connectionDetails(context, endpoint, role.name, password, database.name)],
    roles: [presentRole(role, password)],
    databases: [presentDatabase(database)],
    operations: [made, ...operations].map(presentOperation),
    branch: presentBranch(branch),
    endpoints: [presentEndpoint(endpoint, config)],
  }
})

export const listAccountProjects = route('GET /projects', {
  summary: 'List projects',
  tag: 'Project',
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 400, default: 10 }),
    cursor: Type.Optional(Type.String()),
    search: Type.Optional(Type.String()),
  }),
  returns: Type.Object({
    projects: Type.Array(Project),
    applications: Type.Object({}),
    integrations: Type.Object({}),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: [],
}).handle(async ({ query }, context) => {
  const projects = await listProjects(
    context.db,
    context.caller.account.id,
    query.limit ?? 10,
    query.cursor,
    query.search,
  )
  const last = projects.at(-1)
  return {
    projects: projects.map((project) => presentProject(project, context)),
    applications: {},
    integrations: {},
    ...(last && { pagination: { cursor: last.id } }),
  }
})

const ProjectId = Type.Object({ project_id: Type.String() })

export const getProject = route('GET /projects/:project_id', {
  summary: 'Get a project',
  tag: 'Project',
  params: ProjectId,
  returns: Type.Object({ project: Project }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  project: presentProject(await requireProject(context, params.project_id), context),
}))

export const deleteProject = route('DELETE /projects/:project_id', {
  summary: 'Delete a project with all its branches and data',
  tag: 'Project',
  params: ProjectId,
  returns: Type.Object({ project: Project }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { db } = context
  const project = await lockedProject(context, params.project_id)
  await cancelUnbegun(db, project.id, {}, 'the project was deleted')
  await markProjectDeleted(db, project.id)
  await requestOperation(db, deleteTenant, { account_id: project.account_id, project_id: project.id }, {})
  return { project: presentProject(project, context) }
})
