import { lockAccount } from '../catalog/account.ts'
import { insertBranch } from '../catalog/branch.ts'
import type { Database } from '../catalog/database.ts'
import type { Endpoint } from '../catalog/endpoint.ts'
import { countProjects, insertProject, type Project } from '../catalog/project.ts'
import type { Role } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { newBranchId, newProjectId } from '../ids.ts'
import { createTimeline } from '../operations/create_timeline.ts'
import { requestOperation } from '../operations/request.ts'
import { addDatabase } from './add_database.ts'
import { addRole } from './add_role.ts'
import type { ChangedBranch } from './changed.ts'
import { limitsOf } from './account_limits.ts'
import type { CommandContext } from './command.ts'
import { createEndpoint } from './create_endpoint.ts'
import { requireProvisioner } from './endpoint_settings.ts'
import { requirePgVersion } from './pg_version.ts'
import { requireProjectSettings } from './project_settings.ts'
import { requireOrganization, requireRegion } from './require.ts'
import { type ProjectChanges, requireDefaults } from './update_project.ts'

export interface NewProject {
  readonly project: ProjectChanges & {
    readonly region_id?: string
    readonly org_id?: string
    readonly pg_version?: number
    readonly provisioner?: string
    readonly store_passwords?: boolean
    readonly autoscaling_limit_min_cu?: number
    readonly autoscaling_limit_max_cu?: number
    readonly branch?: {
      readonly name?: string
      readonly role_name?: string
      readonly database_name?: string
      readonly annotations?: Readonly<Record<string, string>>
    }
  }
}

/** A new project with its default branch, and that branch's first role, database and endpoint. */
export interface CreatedProject extends ChangedBranch {
  readonly project: Project
  readonly role: Role
  readonly password: string
  readonly database: Database
  readonly endpoint: Endpoint
}

/**
 * Creates a project. Errors: PROJECTS_LIMIT_EXCEEDED, NOT_FOUND (organization), NOT_ALLOWED, and those of endpoints.
 */
export async function createProject(context: CommandContext, request: NewProject): Promise<CreatedProject> {
  const { db, config, account } = context
  const asked = request.project
  const { autoscaling_limit_min_cu, autoscaling_limit_max_cu } = asked
  const defaults = asked.default_endpoint_settings ?? {
    ...(autoscaling_limit_min_cu !== undefined && { autoscaling_limit_min_cu }),
    ...(autoscaling_limit_max_cu !== undefined && { autoscaling_limit_max_cu }),
  }
  await requireDefaults(context, defaults)
  requireProjectSettings(asked.settings)
  requireRegion(config, asked.region_id)
  requireProvisioner(asked.provisioner)
  const pg_version = await requirePgVersion(db, asked.pg_version)
  requireOrganization(context, asked.org_id)
  if (asked.store_passwords === false)
    throw new AppError('NOT_ALLOWED', 'store_passwords cannot be false: Neap keeps role passwords, encrypted.')
  await requireRoomForProject(context)
  const id = newProjectId()
  const project = await insertProject(db, {
    id,
    account_id: account.id,
    name: asked.name ?? id,
    region_id: config.region,
    pg_version,
    settings: asked.settings ?? {},
    default_endpoint_settings: { ...defaults, ...(asked.provisioner && { provisioner: asked.provisioner }) },
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
    annotation: asked.branch?.annotations ?? {},
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
  const { endpoint, operations } = await createEndpoint(context, project, branch, {})
  return { project, branch, role, password, database, endpoint, operations: [made, ...operations] }
}

/**
 * Checks the project limit and locks the account, so that no other transaction takes the room. `made` counts projects
 * already inserted. Errors: PROJECTS_LIMIT_EXCEEDED.
 */
export async function requireRoomForProject(context: CommandContext, made = 0): Promise<void> {
  const { db, account } = context
  await lockAccount(db, account.id)
  const { projects } = limitsOf(context)
  const most = projects + made
  if ((await countProjects(db, account.id, most)) < most) return
  throw new AppError(
    'PROJECTS_LIMIT_EXCEEDED',
    `The account may have ${projects} projects. Delete one, or raise its projects_limit (neap account).`,
  )
}
