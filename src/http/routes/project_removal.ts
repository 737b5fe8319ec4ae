import { Type } from 'typebox'
import { listBranches } from '../../catalog/branch.ts'
import { branchUses } from '../../catalog/consumption.ts'
import { deleteProject, recoverProject } from '../../commands/delete_project.ts'
import { Branch, branchView } from '../../views/branch.ts'
import { Project, projectView } from '../../views/project.ts'
import { route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'

const MAX_BRANCHES = 10_000

export const deleteAccountProject = route('DELETE /projects/:project_id', {
  summary: 'Delete a project with all its branches and data',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ project: Project }),
  freesDisk: true,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  project: await projectView(await deleteProject(context, params.project_id), context),
}))

export const recoverDeletedProject = route('POST /projects/:project_id/recover', {
  summary: 'Take the deletion of a project back, while NEAP_RECOVER_HOURS leaves time for it',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ project: Project, branches: Type.Array(Branch) }),
  errors: ['NOT_FOUND', 'PROJECTS_LIMIT_EXCEEDED'],
}).handle(async ({ params }, context) => {
  const { db } = context
  const project = await recoverProject(context, params.project_id)
  const branches = await listBranches(db, project.id, { sort: 'created_at', descending: false, limit: MAX_BRANCHES })
  const uses = await branchUses(db, project.id)
  return {
    project: await projectView(project, context),
    branches: branches.map((branch) => branchView(branch, uses.get(branch.id))),
  }
})
