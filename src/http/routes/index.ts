import { createApiKey, listKeys, revokeAccountKey } from './api_keys.ts'
import { listAuditEntries } from './audit.ts'
import { createProjectBranch } from './branch_create.ts'
import { listBranchEndpoints } from './branch_endpoints.ts'
import { getBranchBackup } from './branch_backup.ts'
import { getBranchHistory } from './branch_history.ts'
import { getBranchDiskUsage, getProjectDiskUsage } from './disk_usage.ts'
import { resetProjectBranch, restoreProjectBranch } from './branch_restore.ts'
import { runSql } from './branch_sql.ts'
import {
  anonymizeBranch,
  createAnonymizedBranch,
  getAnonymizedStatus,
  getMaskingRules,
  updateMaskingRules,
} from './branch_anonymize.ts'
import { deleteProjectBranch, recoverDeletedBranch } from './branch_removal.ts'
import { compareBranchSchema, getBranchSchema, listBranchTables } from './branch_schema.ts'
import {
  countProjectBranches,
  getBranch,
  listProjectBranches,
  setProjectDefaultBranch,
  setProjectPrimaryBranch,
  updateProjectBranch,
} from './branches.ts'
import { getCertificateAuthority } from './certificate_authority.ts'
import { getConnectionUri } from './connection_uri.ts'
import {
  createBranchDatabase,
  deleteBranchDatabase,
  getDatabase,
  listBranchDatabases,
  updateBranchDatabase,
} from './databases.ts'
import {
  listBuckets,
  listFunctions,
  listPreloadLibraries,
  listProjectJwks,
  listProjectPermissions,
  listProjectVpcEndpoints,
} from './empty_lists.ts'
import { getEndpointActivity } from './endpoint_activity.ts'
import { restartProjectEndpoint, startProjectEndpoint, suspendProjectEndpoint } from './endpoint_life.ts'
import { getBranchConsumption, getProjectConsumption } from './consumption.ts'
import { getEndpointMetrics } from './endpoint_metrics.ts'
import { getEndpointScaling } from './endpoint_scaling.ts'
import { updateProjectEndpoint } from './endpoint_update.ts'
import { createProjectEndpoint, deleteProjectEndpoint, getEndpoint, listProjectEndpoints } from './endpoints.ts'
import { listOperationSteps } from './operation_steps.ts'
import { streamOperations } from './operation_stream.ts'
import { cancelProjectOperation, getOperation, listProjectOperations } from './operations.ts'
import { createOrganizationApiKey, listOrganizationApiKeys, revokeOrganizationApiKey } from './organization_api_keys.ts'
import {
  createOrganizationOfPerson,
  getOrganization,
  listAllOrganizationVpcEndpoints,
  listOrganizationVpcEndpoints,
  updateOrganization,
} from './organizations.ts'
import { approveLogin, getPasswordlessLogin, refuseLogin } from './passwordless_logins.ts'
import {
  createOrganizationInvitations,
  listOrganizationInvitations,
  revokeOrganizationInvitation,
} from './invitations.ts'
import {
  getOrganizationMember,
  leaveOrganization,
  listOrganizationMembers,
  removeOrganizationMember,
  updateOrganizationMember,
} from './members.ts'
import { getOwnPassword, setOwnPassword, updateCurrentUser } from './persons.ts'
import { listOwnIdentities, removeOwnIdentity } from './identities.ts'
import { addOwnPasskey, listOwnPasskeys, offerOwnPasskey, removeOwnPasskey, updateOwnPasskey } from './passkeys.ts'
import { getProjectLimits } from './project_limits.ts'
import { deleteAccountProject, recoverDeletedProject } from './project_removal.ts'
import {
  createAccountProject,
  getProject,
  listAccountProjects,
  listSharedProjects,
  updateAccountProject,
} from './projects.ts'
import { listRegions } from './regions.ts'
import { resetBranchRolePassword, revealRolePassword } from './role_passwords.ts'
import { createBranchRole, deleteBranchRole, getRole, listBranchRoles } from './roles.ts'
import { getAccount, updateAccount } from './account.ts'
import { getNotices } from './notices.ts'
import { listPostgresVersions } from './postgres_versions.ts'
import { createSignInLink, endOwnSession, listOwnSessions } from './sessions.ts'
import {
  createBranchSnapshot,
  deleteProjectSnapshot,
  finalizeBranchRestore,
  getBackupSchedule,
  listProjectSnapshots,
  restoreProjectSnapshot,
  setBackupSchedule,
  updateProjectSnapshot,
} from './snapshots.ts'
import { getStatus } from './status.ts'
import { getAuth, getCurrentUser, listUserOrganizations } from './users.ts'
import { listWebhookDeliveries, redeliverToWebhook, testWebhook } from './webhook_deliveries.ts'
import {
  createAccountWebhook,
  deleteAccountWebhook,
  getWebhook,
  listAccountWebhooks,
  rotateAccountWebhookSecret,
  updateAccountWebhook,
} from './webhooks.ts'

/** Every route of the API. */
export const routes = [
  createAccountProject,
  listAccountProjects,
  listSharedProjects,
  getProject,
  updateAccountProject,
  deleteAccountProject,
  recoverDeletedProject,
  getProjectLimits,
  createProjectBranch,
  listProjectBranches,
  countProjectBranches,
  getBranch,
  updateProjectBranch,
  setProjectDefaultBranch,
  setProjectPrimaryBranch,
  deleteProjectBranch,
  recoverDeletedBranch,
  createAnonymizedBranch,
  getMaskingRules,
  updateMaskingRules,
  getAnonymizedStatus,
  anonymizeBranch,
  restoreProjectBranch,
  resetProjectBranch,
  createBranchSnapshot,
  listProjectSnapshots,
  updateProjectSnapshot,
  deleteProjectSnapshot,
  restoreProjectSnapshot,
  finalizeBranchRestore,
  getBackupSchedule,
  setBackupSchedule,
  getBranchBackup,
  getBranchHistory,
  getBranchDiskUsage,
  getProjectDiskUsage,
  getBranchSchema,
  compareBranchSchema,
  listBranchTables,
  runSql,
  createProjectEndpoint,
  listProjectEndpoints,
  listBranchEndpoints,
  getEndpoint,
  getEndpointActivity,
  getEndpointScaling,
  getEndpointMetrics,
  getProjectConsumption,
  getBranchConsumption,
  updateProjectEndpoint,
  deleteProjectEndpoint,
  startProjectEndpoint,
  suspendProjectEndpoint,
  restartProjectEndpoint,
  listProjectOperations,
  streamOperations,
  getOperation,
  cancelProjectOperation,
  listOperationSteps,
  createBranchRole,
  listBranchRoles,
  getRole,
  deleteBranchRole,
  resetBranchRolePassword,
  revealRolePassword,
  createBranchDatabase,
  listBranchDatabases,
  getDatabase,
  updateBranchDatabase,
  deleteBranchDatabase,
  getConnectionUri,
  getPasswordlessLogin,
  approveLogin,
  refuseLogin,
  getCertificateAuthority,
  createApiKey,
  listKeys,
  revokeAccountKey,
  createAccountWebhook,
  listAccountWebhooks,
  getWebhook,
  updateAccountWebhook,
  rotateAccountWebhookSecret,
  deleteAccountWebhook,
  testWebhook,
  listWebhookDeliveries,
  redeliverToWebhook,
  listAuditEntries,
  getStatus,
  listPostgresVersions,
  getNotices,
  getAccount,
  updateAccount,
  getAuth,
  getCurrentUser,
  listOwnSessions,
  endOwnSession,
  createSignInLink,
  updateCurrentUser,
  getOwnPassword,
  setOwnPassword,
  listOwnPasskeys,
  offerOwnPasskey,
  addOwnPasskey,
  updateOwnPasskey,
  removeOwnPasskey,
  listOwnIdentities,
  removeOwnIdentity,
  listUserOrganizations,
  leaveOrganization,
  createOrganizationOfPerson,
  getOrganization,
  updateOrganization,
  listOrganizationMembers,
  getOrganizationMember,
  updateOrganizationMember,
  removeOrganizationMember,
  listOrganizationInvitations,
  createOrganizationInvitations,
  revokeOrganizationInvitation,
  listOrganizationVpcEndpoints,
  listAllOrganizationVpcEndpoints,
  createOrganizationApiKey,
  listOrganizationApiKeys,
  revokeOrganizationApiKey,
  listRegions,
  listBuckets,
  listFunctions,
  listProjectVpcEndpoints,
  listProjectPermissions,
  listProjectJwks,
  listPreloadLibraries,
] as const
