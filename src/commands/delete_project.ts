import { listWorkingEndpoints } from '../catalog/endpoint.ts'
import { cancelOperation, cancelUnbegun, listOperations, postponeOperation } from '../catalog/operation.ts'
import {
  deleteProject as deleteForGood,
  deleteProjectFor,
  type Project,
  recoverProject as recoverProjectRow,
} from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { deleteTenant } from '../operations/delete_tenant.ts'
import { requestOperation } from '../operations/request.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'
import type { CommandContext } from './command.ts'
import { requireRoomForProject } from './create_project.ts'
import { lockedProject } from './require.ts'

/**
 * Deletes a project with its branches and data; with `recoverHours` set it can be recovered until then. Errors:
 * NOT_FOUND, LOCKED.
 */
export async function deleteProject(context: CommandContext, projectId: string): Promise<Project> {
  const { db, config } = context
  const project = await lockedProject(context, projectId, { relieves: true })
  const { id, account_id } = project
  await cancelUnbegun(db, id, {}, 'the project was deleted')
  if (config.recoverHours === 0) await deleteForGood(db, id)
  else {
    for (const endpoint of await listWorkingEndpoints(db, id)) await queueSuspend(db, endpoint, 'request')
    await deleteProjectFor(db, id, config.recoverHours)
  }
  const removal = await requestOperation(db, deleteTenant, { account_id, project_id: id }, {})
  if (config.recoverHours > 0) await postponeOperation(db, removal.id, config.recoverHours)
  return project
}

/** Recovers a deleted project. Errors: NOT_FOUND (not or no longer recoverable), PROJECTS_LIMIT_EXCEEDED. */
export async function recoverProject(context: CommandContext, projectId: string): Promise<Project> {
  const { db, account } = context
  const project = await recoverProjectRow(db, account.id, projectId)
  if (!project) throw new AppError('NOT_FOUND', `project ${projectId} not found among those that can be recovered`)
  await requireRoomForProject(context, 1)
  const [removal] = await listOperations(db, project.id, 1, undefined, {
    action: 'delete_tenant',
    status: 'scheduling',
  })
  const cancelled = removal && (await cancelOperation(db, removal.id, 'the project was recovered'))
  if (!cancelled) throw new AppError('NOT_FOUND', `project ${project.id} is being removed`)
  return project
}
