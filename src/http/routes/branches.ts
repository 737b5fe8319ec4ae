import { type Static, Type } from 'typebox'
import {
  type Branch as BranchRow,
  findBranchNamed,
  findDefaultBranch,
  hasChildren,
  insertBranch,
  listBranches,
  markBranchDeleted,
} from '../../catalog/branch.ts'
import { findBranchEndpoint } from '../../catalog/endpoint.ts'
import { cancelUnbegun, unfinishedOperations } from '../../catalog/operation.ts'
import { copyRolesAndDatabases } from '../../catalog/branch_config.ts'
import { listDatabases } from '../../catalog/database.ts'
import { listRoles } from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { newBranchId } from '../../ids.ts'
import { createBranch as createBranchAction } from '../../operations/create_branch.ts'
import { deleteTimeline } from '../../operations/delete_timeline.ts'
import { requestOperation } from '../../operations/request.ts'
import { ConnectionDetails, connectionDetails } from '../connection_details.ts'
import { refreshBranch } from '../branch_config.ts'
import { lockedProject, requireBranch, requireProject } from '../require.ts'
import { route } from '../route.ts'
import { Database, presentDatabase } from './databases.ts'
import { addEndpoint, Endpoint, NewEndpoint, presentEndpoint, removeEndpoint } from './endpoints.ts'
import { Operation, presentOperation } from './operations.ts'
import { passwordOf, presentRole, Role } from './roles.ts'

const State = Type.Union([Type.Literal('init'), Type.Literal('ready')])

export const Branch = Type.Object(
  {
    id: Type.String(),
    project_id: Type.String(),
    parent_id: Type.Optional(Type.String()),
    name: Type.String(),
    current_state: State,
    pending_state: Type.Optional(State),
    state_changed_at: Type.String({ format: 'date-time' }),
    creation_source: Type.String(),
    primary: Type.Boolean(),
    default: Type.Boolean(),
    protected: Type.Boolean(),
    cpu_used_sec: Type.Integer(),
    compute_time_seconds: Type.Integer(),
    active_time_seconds: Type.Integer(),
    written_data_bytes: Type.Integer(),
    data_transfer_bytes: Type.Integer(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Branch' },
)

/** A branch as clients see it. Consumption is not measured yet and stands at zero, as the clients' types require the fields. */
export function presentBranch(row: BranchRow): Static<typeof Branch> {
  return {
    id: row.id,
    project_id: row.project_id,
    ...(row.parent_id && { parent_id: row.parent_id }),
    name: row.name,
    current_state: row.current_state,
    ...(row.pending_state && { pending_state: row.pending_state }),
    state_changed_at: row.state_changed_at,
    creation_source: row.creation_source,
    primary: row.is_default,
    default: row.is_default,
    protected: row.protected,
    cpu_used_sec: 0,
    compute_time_seconds: 0,
    active_time_seconds: 0,
    written_data_bytes: 0,
    data_transfer_bytes: 0,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

const ProjectId = Type.Object({ project_id: Type.String() })
const BranchId = Type.Object({ project_id: Type.String(), branch_id: Type.String() })

const NewBranch = Type.Object({
  branch: Type.Optional(
    Type.Object({
      parent_id: Type.Optional(Type.String()),
      name: Type.Optional(Type.String({ maxLength: 256 })),
      protected: Type.Optional(Type.Boolean()),
    }),
  ),
  endpoints: Type.Optional(Type.Array(NewEndpoint)),
})

export const createBranch = route('POST /projects/:project_id/branches', {
  summary: 'Create a branch, with its data as its parent has it now',
  tag: 'Branch',
  params: ProjectId,
  body: NewBranch,
  status: 201,
  returns: Type.Object({
    branch: Branch,
    endpoints: Type.Array(Endpoint),
    operations: Type.Array(Operation),
    roles: Type.Array(Role),
    databases: Type.Array(Database),
    connection_uris: Type.Optional(Type.Array(ConnectionDetails)),
  }),
  errors: ['NOT_FOUND', 'BRANCH_ALREADY_EXISTS', 'ENDPOINTS_LIMIT_EXCEEDED', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => {
  const { db, config } = context
  const asked = body.branch ?? {}
  const project = await lockedProject(context, params.project_id)
  const parent = asked.parent_id
    ? await requireBranch(context, project.id, asked.parent_id)
    : await findDefaultBranch(db, project.id)
  if (!parent) throw new AppError('NOT_FOUND', 'The project has no default branch to branch from; give parent_id.')
  if (parent.current_state === 'init' && parent.pending_state === null) {
    throw new AppError('NOT_ALLOWED', `The parent ${parent.id} could not be made and holds no data; choose another.`)
  }
  const id = newBranchId()
  const name = asked.name ?? id
  if (await findBranchNamed(db, project.id, name))
    throw new AppError('BRANCH_ALREADY_EXISTS', `branch already exists; branch_name:"${name}"`)
  const [asksEndpoint, ...tooMany] = body.endpoints ?? []
  if (tooMany.length > 0) throw new AppError('ENDPOINTS_LIMIT_EXCEEDED')

  const branch = await insertBranch(db, {
    id,
    name,
    account_id: project.account_id,
    project_id: project.id,
    parent_id: parent.id,
    is_default: false,
    protected: asked.protected ?? false,
  })
  await refreshBranch(context, parent)
  await copyRolesAndDatabases(db, parent.id, branch.id)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: branch.id }
  const operations = [await requestOperation(db, createBranchAction, subject, { parent_id: parent.id })]
  const made = asksEndpoint && (await addEndpoint(context, project, branch, asksEndpoint))
  operations.push(...(made?.operations ?? []))

  const roles = await listRoles(db, branch.id)
  const databases = await listDatabases(db, branch.id)
  const [role] = roles
  const [database] = databases
  const only = made && role && database && roles.length === 1 && databases.length === 1
  return {
    branch: presentBranch(branch),
    endpoints: made ? [presentEndpoint(made.endpoint, config)] : [],
    operations: operations.map(presentOperation),
    roles: roles.map((each) => presentRole(each)),
    databases: databases.map(presentDatabase),
    ...(only && {
      connection_uris: [
        await connectionDetails(context, made.endpoint, role.name, passwordOf(context, role), database.name),
      ],
    }),
  }
})

export const listProjectBranches = route('GET /projects/:project_id/branches', {
  summary: 'List the branches of a project',
  tag: 'Branch',
  params: ProjectId,
  returns: Type.Object({ branches: Type.Array(Branch), annotations: Type.Object({}) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branches = await listBranches(context.db, params.project_id)
  return { branches: branches.map(presentBranch), annotations: {} }
})

export const getBranch = route('GET /projects/:project_id/branches/:branch_id', {
  summary: 'Get a branch',
  tag: 'Branch',
  params: BranchId,
  returns: Type.Object({ branch: Branch }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { branch: presentBranch(await requireBranch(context, params.project_id, params.branch_id)) }
})

export const deleteBranch = route('DELETE /projects/:project_id/branches/:branch_id', {
  summary: 'Delete a branch, its endpoint and its data',
  tag: 'Branch',
  params: BranchId,
  returns: Type.Object({ branch: Branch, operations: Type.Array(Operation) }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const { db } = context
  const project = await lockedProject(context, params.project_id)
  const branch = await requireBranch(context, project.id, params.branch_id)
  if (branch.is_default)
    throw new AppError(
      'NOT_ALLOWED',
      'cannot delete the default branch; delete the project, or make another branch the default first',
    )
  if (branch.protected) throw new AppError('NOT_ALLOWED', 'cannot delete a protected branch')
  if (await hasChildren(db, branch.id)) throw new AppError('NOT_ALLOWED', 'cannot delete branch that has children')
  const before = await unfinishedOperations(db, branch.id)
  await cancelUnbegun(db, project.id, { branchId: branch.id }, 'the branch was deleted')
  await markBranchDeleted(db, branch.id)
  const endpoint = await findBranchEndpoint(db, branch.id)
  if (endpoint) await removeEndpoint(db, endpoint)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: branch.id }
  await requestOperation(db, deleteTimeline, subject, {})
  const operations = (await unfinishedOperations(db, branch.id)).filter(
    (operation) => !before.some(({ id }) => id === operation.id),
  )
  return { branch: presentBranch(branch), operations: operations.map(presentOperation) }
})
