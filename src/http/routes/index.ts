import { createApiKey, listKeys, revokeKey } from './api_keys.ts'
import { listBranchEndpoints } from './branch_endpoints.ts'
import { resetBranch, restoreBranch } from './branch_restore.ts'
import { compareBranchSchema, getBranchSchema } from './branch_schema.ts'
import { createProjectBranch } from './branch_create.ts'
import {
  countProjectBranches,
  deleteBranch,
  getBranch,
  listProjectBranches,
  setProjectDefaultBranch,
  setProjectPrimaryBranch,
  updateProjectBranch,
} from './branches.ts'
import { getStatus } from './status.ts'
import { getConnectionUri } from './connection_uri.ts'
import { createDatabase, deleteDatabase, getDatabase, listBranchDatabases, updateDatabase } from './databases.ts'
import { createEndpoint, deleteProjectEndpoint, getEndpoint, listProjectEndpoints } from './endpoints.ts'
import { getEndpointActivity } from './endpoint_activity.ts'
import { restartEndpoint, startEndpoint, suspendEndpoint } from './endpoint_life.ts'
import { updateProjectEndpoint } from './endpoint_update.ts'
import {
  listBuckets,
  listFunctions,
  listPreloadLibraries,
  listProjectJwks,
  listProjectPermissions,
  listProjectVpcEndpoints,
  listSnapshots,
} from './empty_lists.ts'
import { cancelProjectOperation, getOperation, listProjectOperations } from './operations.ts'
import { streamOperations } from './operation_stream.ts'
import { listAuditEntries } from './audit.ts'
import { createOrganizationApiKey, listOrganizationApiKeys, revokeOrganizationApiKey } from './organization_api_keys.ts'
import {
  getOrganization,
  getOrganizationMember,
  listAllOrganizationVpcEndpoints,
  listOrganizationInvitations,
  listOrganizationMembers,
  listOrganizationVpcEndpoints,
} from './organizations.ts'
import { getProjectLimits } from './project_limits.ts'
import { createProject, getProject, listAccountProjects, listSharedProjects, updateAccountProject } from './projects.ts'
import { resetRolePassword, revealRolePassword } from './role_passwords.ts'
import { deleteProject, recoverDeletedProject } from './project_removal.ts'
import { createRole, deleteRole, getRole, listBranchRoles } from './roles.ts'
import { listRegions } from './regions.ts'
import { listWebhookDeliveries, redeliverToWebhook, testWebhook } from './webhook_deliveries.ts'
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from './webhooks.ts'
import { getAuth, getCurrentUser, listUserOrganizations } from './users.ts'

/** Every route of the API. */
export const routes = [
  createProject,
  listAccountProjects,
  listSharedProjects,
  getProject,
  updateAccountProject,
  deleteProject,
  recoverDeletedProject,
  getProjectLimits,
  createProjectBranch,
  listProjectBranches,
  countProjectBranches,
  getBranch,
  updateProjectBranch,
  setProjectDefaultBranch,
  setProjectPrimaryBranch,
  deleteBranch,
  restoreBranch,
  resetBranch,
  getBranchSchema,
  compareBranchSchema,
  createEndpoint,
  listProjectEndpoints,
  listBranchEndpoints,
  getEndpoint,
  getEndpointActivity,
  updateProjectEndpoint,
  deleteProjectEndpoint,
  startEndpoint,
  suspendEndpoint,
  restartEndpoint,
  listProjectOperations,
  streamOperations,
  getOperation,
  cancelProjectOperation,
  createRole,
  listBranchRoles,
  getRole,
  deleteRole,
  resetRolePassword,
  revealRolePassword,
  createDatabase,
  listBranchDatabases,
  getDatabase,
  updateDatabase,
  deleteDatabase,
  getConnectionUri,
  createApiKey,
  listKeys,
  revokeKey,
  createWebhook,
  listWebhooks,
  getWebhook,
  updateWebhook,
  rotateWebhookSecret,
  deleteWebhook,
  testWebhook,
  listWebhookDeliveries,
  redeliverToWebhook,
  listAuditEntries,
  getStatus,
  getAuth,
  getCurrentUser,
  listUserOrganizations,
  getOrganization,
  listOrganizationMembers,
  getOrganizationMember,
  listOrganizationInvitations,
  listOrganizationVpcEndpoints,
  listAllOrganizationVpcEndpoints,
  createOrganizationApiKey,
  listOrganizationApiKeys,
  revokeOrganizationApiKey,
  listRegions,
  listBuckets,
  listFunctions,
  listSnapshots,
  listProjectVpcEndpoints,
  listProjectPermissions,
  listProjectJwks,
  listPreloadLibraries,
] as const
