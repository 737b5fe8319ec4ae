import { Type } from 'typebox'
import { findDefaultBranch, insertBranch } from '../../catalog/branch.ts'
import { copyRolesAndDatabases } from '../../catalog/branch_config.ts'
import { listDatabases } from '../../catalog/database.ts'
import { listRoles } from '../../catalog/role.ts'
import { AppError } from '../../errors.ts'
import { newBranchId } from '../../ids.ts'
import { createBranch } from '../../operations/create_branch.ts'
import { type Look, lookAtConfig, noteLook } from '../../operations/config.ts'
import { requestOperation } from '../../operations/request.ts'
import { ConnectionDetails, connectionDetails } from '../connection_details.ts'
import { lockedProject, requireBranch, requireFuture, requireProject } from '../require.ts'
import { type RequestContext, route } from '../route.ts'
import { requireNow } from './branch_restore.ts'
import { Branch, presentBranch, requireFreeName, requireRoomForBranch } from './branches.ts'
import { Database, presentDatabase } from './databases.ts'
import { addEndpoint, Endpoint, NewEndpoint, presentEndpoint, REFUSALS } from './endpoints.ts'
import { Operation, presentOperation } from './operations.ts'
import { passwordOf, presentRole, Role } from './roles.ts'

const NewBranch = Type.Object({
  branch: Type.Optional(
    Type.Object({
      parent_id: Type.Optional(Type.String()),
      name: Type.Optional(Type.String({ maxLength: 256 })),
      parent_lsn: Type.Optional(Type.String()),
      parent_timestamp: Type.Optional(Type.String()),
      protected: Type.Optional(Type.Boolean()),
      archived: Type.Optional(Type.Boolean()),
      init_source: Type.Optional(Type.String()),
      expires_at: Type.Optional(Type.String({ format: 'date-time' })),
    }),
  ),
  endpoints: Type.Optional(Type.Array(NewEndpoint)),
  annotation_value: Type.Optional(Type.Record(Type.String(), Type.String())),
})

export const createProjectBranch = route('POST /projects/:project_id/branches', {
  summary: 'Create a branch, with its data as its parent has it now',
  tag: 'Branch',
  params: Type.Object({ project_id: Type.String() }),
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
  errors: ['NOT_FOUND', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED', 'ENDPOINTS_LIMIT_EXCEEDED', ...REFUSALS],
}).handle(async ({ params, body }, context) => {
  const { db, config } = context
  const asked = body.branch ?? {}
  requireNow({ parent_lsn: asked.parent_lsn, parent_timestamp: asked.parent_timestamp })
  if (asked.archived)
    throw new AppError('NOT_ALLOWED', 'Branches cannot be archived here: leave archived out, or give false.')
  if (asked.init_source !== undefined && asked.init_source !== 'parent-data')
    throw new AppError('NOT_ALLOWED', `init_source is ${asked.init_source}; a branch begins with parent-data only.`)
  if (asked.expires_at !== undefined && asked.protected)
    throw new AppError('NOT_ALLOWED', 'A protected branch cannot expire.')
  const { look, parent_id } = await lookAtParent(context, params.project_id, asked.parent_id)
  const project = await lockedProject(context, params.project_id)
  await requireRoomForBranch(context, project.id)
  const parent = await requireBranch(context, project.id, parent_id)
  if (parent.current_state === 'init' && parent.pending_state === null) {
    throw new AppError('NOT_ALLOWED', `The parent ${parent.id} could not be made and holds no data; choose another.`)
  }
  const id = newBranchId()
  const name = asked.name ?? id
  await requireFreeName(context, project.id, name)
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
    expires_at: asked.expires_at === undefined ? null : requireFuture('expires_at', asked.expires_at),
    annotation: body.annotation_value ?? {},
  })
  if (look) await noteLook(db, parent, look)
  await copyRolesAndDatabases(db, parent.id, branch.id)
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: branch.id }
  const operations = [await requestOperation(db, createBranch, subject, { parent_id: parent.id })]
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
    operations: operations.map((each) => presentOperation(each)),
    roles: roles.map((each) => presentRole(each)),
    databases: databases.map(presentDatabase),
    ...(only && {
      connection_uris: [connectionDetails(context, made.endpoint, role.name, passwordOf(context, role), database.name)],
    }),
  }
})

/**
 * What the parent's compute says of its roles and databases, asked before anything is locked: nobody else should have to wait for
 * the answer. Errors: NOT_FOUND.
 */
async function lookAtParent(
  context: RequestContext,
  projectId: string,
  id: string | undefined,
): Promise<{ parent_id: string; look: Look | undefined }> {
  const project = await requireProject(context, projectId)
  const parent = id ? await requireBranch(context, project.id, id) : await findDefaultBranch(context.db, project.id)
  if (!parent) throw new AppError('NOT_FOUND', 'The project has no default branch to branch from; give parent_id.')
  return { parent_id: parent.id, look: await lookAtConfig(context, context.db, parent) }
}
