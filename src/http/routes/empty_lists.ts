import { Type } from 'typebox'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { route } from '../route.ts'
import { BranchParams, ProjectParams } from '../path_params.ts'

/* Products that Neap does not have. Clients list them on the way to other requests, and fail without the list. */

const None = Type.Array(Type.Object({}))

export const listBuckets = route('GET /projects/:project_id/branches/:branch_id/buckets', {
  summary: 'Object storage of a branch, of which there is none here',
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({ buckets: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  await requireBranch(context, params.project_id, params.branch_id)
  return { buckets: [] }
})

export const listFunctions = route('GET /projects/:project_id/branches/:branch_id/functions', {
  summary: 'Functions of a branch, of which there are none here',
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({ functions: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  await requireBranch(context, params.project_id, params.branch_id)
  return { functions: [] }
})

export const listProjectVpcEndpoints = route('GET /projects/:project_id/vpc_endpoints', {
  summary: 'Private endpoints of a project, of which there are none here',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ endpoints: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { endpoints: [] }
})

export const listProjectPermissions = route('GET /projects/:project_id/permissions', {
  summary: 'The accounts that a project is shared with: always empty, since projects cannot be shared here',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ project_permissions: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { project_permissions: [] }
})

export const listProjectJwks = route('GET /projects/:project_id/jwks', {
  summary: 'Key sets that JSON Web Tokens are verified with, of which there are none here',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ jwks: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { jwks: [] }
})

export const listPreloadLibraries = route('GET /projects/:project_id/available_preload_libraries', {
  summary: 'Libraries that computes can be told to preload: none, since shared_preload_libraries cannot be set here',
  tag: 'Project',
  params: ProjectParams,
  returns: Type.Object({ libraries: None }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  return { libraries: [] }
})
