import { projectUses } from '../../catalog/consumption.ts'
import { Type } from 'typebox'
import { listProjects, listRecoverable } from '../../catalog/project.ts'
import { summarizeProjects } from '../../catalog/project_summary.ts'
import { limitsOf } from '../../commands/account_limits.ts'
import { createProject } from '../../commands/create_project.ts'
import { requireOrganization, requireProject } from '../../commands/require.ts'
import { changeProject } from '../../commands/update_project.ts'
import { Branch, branchView } from '../../views/branch.ts'
import { ConnectionDetails, connectionDetails } from '../../views/connection.ts'
import { Database, databaseView } from '../../views/database.ts'
import { Endpoint, endpointView } from '../../views/endpoint.ts'
import { Provisioner } from '../../views/endpoint_settings.ts'
import { Operation, operationView } from '../../views/operation.ts'
import {
  DefaultEndpointSettings,
  Project,
  ProjectListItem,
  projectListItemView,
  projectView,
} from '../../views/project.ts'
import { HistoryRetention, ProjectSettings } from '../../views/project_settings.ts'
import { Role, roleView } from '../../views/role.ts'
import { subscriptionType } from '../billing_account.ts'
import { TextMap } from '../../views/text_map.ts'
import { route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'
import { REFUSALS } from './endpoints.ts'

const ProjectChanges = {
  name: Type.Optional(Type.String({ maxLength: 256 })),
  settings: Type.Optional(ProjectSettings),
  history_retention_seconds: Type.Optional(HistoryRetention),
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
        annotations: Type.Optional(TextMap),
      }),
    ),
  }),
})

/** Lists of addresses and Postgres settings may be long. */
const PROJECT_BYTES = 32 * 1024

export const createAccountProject = route('POST /projects', {
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
  const { project, branch, role, password, database, endpoint, operations } = await createProject(context, body)
  return {
    project: await projectView(project, context),
    connection_uris: [connectionDetails(context, endpoint, role.name, password, database.name)],
    roles: [roleView(role, password)],
    databases: [databaseView(database)],
    operations: operations.map((each) => operationView(each)),
    branch: branchView(branch),
    endpoints: [endpointView(endpoint, context.config)],
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
    summary: Type.Optional(
      Type.Boolean({ description: 'Neap only. With the branches, sizes and endpoints of each project' }),
    ),
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
  const ids = projects.map(({ id }) => id)
  const [uses, summaries] = await Promise.all([
    projectUses(context.db, ids),
    query.summary ? summarizeProjects(context.db, ids) : undefined,
  ])
  return {
    projects: projects.map((project) =>
      projectListItemView(project, context, uses.get(project.id), summaries?.get(project.id)),
    ),
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

export const getProject = route('GET /projects/:project_id', {
  summary: 'Get a project',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ project: Project }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { name, email, plan } = context.caller.account
  const { branches } = limitsOf(context)
  const project = await projectView(await requireProject(context, params.project_id), context)
  const owner = { name, email, branches_limit: branches, subscription_type: subscriptionType(plan) }
  return { project: { ...project, owner } }
})

export const updateAccountProject = route('PATCH /projects/:project_id', {
  summary: 'Update a project; what is not given stays. Defaults hold for endpoints made from now on',
  tag: 'Project',
  params: ProjectParams,
  body: Type.Object({ project: Type.Object(ProjectChanges) }),
  bodyLimit: PROJECT_BYTES,
  returns: Type.Object({ project: Project, operations: Type.Array(Operation) }),
  errors: ['NOT_FOUND', ...REFUSALS],
}).handle(async ({ params, body }, context) => {
  const { project, operations } = await changeProject(context, params.project_id, body.project)
  return { project: await projectView(project, context), operations: operations.map((each) => operationView(each)) }
})
