import { Type } from 'typebox'
import { listBranches } from '../../catalog/branch.ts'
import { listWorkingEndpoints } from '../../catalog/endpoint.ts'
import { cancelOperation, cancelUnbegun, listOperations, postponeOperation } from '../../catalog/operation.ts'
import { deleteProject as deleteForGood, deleteProjectFor, recoverProject } from '../../catalog/project.ts'
import { branchTransfers } from '../../catalog/traffic.ts'
import { AppError } from '../../errors.ts'
import { deleteTenant } from '../../operations/delete_tenant.ts'
import { requestOperation } from '../../operations/request.ts'
import { queueSuspend } from '../../operations/suspend_compute.ts'
import { lockedProject } from '../require.ts'
import { route } from '../route.ts'
import { Branch, presentBranch } from './branches.ts'
import { presentProject, Project, ProjectId, requireRoomForProject } from './projects.ts'

const MAX_BRANCHES = 10_000

export const deleteProject = route('DELETE /projects/:project_id', {
  summary: 'Delete a project with all its branches and data',
  tag: 'Project',
  params: ProjectId,
  returns: Type.Object({ project: Project }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const { db, config } = context
  const project = await lockedProject(context, params.project_id)
  const { id, account_id } = project
  await cancelUnbegun(db, id, {}, 'the project was deleted')
  if (config.recoverHours === 0) await deleteForGood(db, id)
  else {
    for (const endpoint of await listWorkingEndpoints(db, id)) await queueSuspend(db, endpoint, 'request')
    await deleteProjectFor(db, id, config.recoverHours)
  }
  const removal = await requestOperation(db, deleteTenant, { account_id, project_id: id }, {})
  if (config.recoverHours > 0) await postponeOperation(db, removal.id, config.recoverHours)
  return { project: await presentProject(project, context) }
})

export const recoverDeletedProject = route('POST /projects/:project_id/recover', {
  summary: 'Take the deletion of a project back, while NEAP_RECOVER_HOURS leaves time for it',
  tag: 'Project',
  params: ProjectId,
  returns: Type.Object({ project: Project, branches: Type.Array(Branch) }),
  errors: ['NOT_FOUND', 'PROJECTS_LIMIT_EXCEEDED'],
}).handle(async ({ params }, context) => {
  const { db, caller } = context
  const project = await recoverProject(db, caller.account.id, params.project_id)
  if (!project)
    throw new AppError('NOT_FOUND', `project ${params.project_id} not found among those that can be recovered`)
  await requireRoomForProject(context, 1)
  const [removal] = await listOperations(db, project.id, 1, undefined, {
    action: 'delete_tenant',
    status: 'scheduling',
  })
  const cancelled = removal && (await cancelOperation(db, removal.id, 'the project was recovered'))
  if (!cancelled) throw new AppError('NOT_FOUND', `project ${project.id} is being removed`)
  const branches = await listBranches(db, project.id, { sort: 'created_at', descending: false, limit: MAX_BRANCHES })
  const transfers = await branchTransfers(db, project.id)
  return {
    project: await presentProject(project, context),
    branches: branches.map((branch) => presentBranch(branch, transfers.get(branch.id))),
  }
})
