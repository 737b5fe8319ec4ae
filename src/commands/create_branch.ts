import { findDefaultBranch, insertBranch } from '../catalog/branch.ts'
import { agreesWith, copyRolesAndDatabases, noteConfig } from '../catalog/branch_config.ts'
import type { Database } from '../catalog/database.ts'
import type { Project } from '../catalog/project.ts'
import type { Endpoint } from '../catalog/endpoint.ts'
import type { Role } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { newBranchId } from '../ids.ts'
import { createBranch as createBranchAction } from '../operations/create_branch.ts'
import type { StoreMoment } from '../operations/moment.ts'
import { requestOperation } from '../operations/request.ts'
import { type Anonymization, anonymizeNew } from './anonymize.ts'
import type { ChangedBranch } from './changed.ts'
import type { CommandContext } from './command.ts'
import { createEndpoint, type NewEndpoint } from './create_endpoint.ts'
import { isCurrent, type Look, lookAtBranch } from './look.ts'
import { requireMoment } from './moment.ts'
import {
  lockedProject,
  requireBranch,
  requireData,
  requireDiskForCopy,
  requireExpiry,
  requireFreeBranchName,
  requireOpen,
  requireRoomForBranch,
} from './require.ts'

export interface NewBranch {
  readonly branch?: {
    readonly parent_id?: string
    readonly name?: string
    readonly parent_lsn?: string
    readonly parent_timestamp?: string
    readonly protected?: boolean
    readonly archived?: boolean
    readonly init_source?: string
    readonly expires_at?: string | null
  }
  readonly endpoints?: readonly NewEndpoint[]
  readonly annotation_value?: Readonly<Record<string, string>>
}

/** A new branch, its copies of the parent's roles and databases, and its endpoint if the request has one. */
export interface CreatedBranch extends ChangedBranch {
  readonly endpoint: Endpoint | undefined
  readonly roles: readonly Role[]
  readonly databases: readonly Database[]
}

/**
 * Creates a branch with the data that its parent has now, or had at a moment.
 * @param look the result of `lookAtParent`
 * @param anonymization its data are to be masked before a client may enter
 * Errors: NOT_FOUND, LOCKED, BRANCH_ALREADY_EXISTS, BRANCHES_LIMIT_EXCEEDED, ENDPOINTS_LIMIT_EXCEEDED, NOT_ALLOWED, and
 * those of endpoints.
 */
export async function createBranch(
  context: CommandContext,
  projectId: string,
  request: NewBranch,
  look: Look | undefined,
  anonymization?: Anonymization,
): Promise<CreatedBranch> {
  const { db } = context
  const asked = request.branch ?? {}
  if (asked.archived)
    throw new AppError('NOT_ALLOWED', 'A new branch cannot be archived: leave archived out, or give false.')
  if (asked.init_source !== undefined && !['parent-data', 'schema-only'].includes(asked.init_source))
    throw new AppError(
      'NOT_ALLOWED',
      `init_source is ${asked.init_source}; a branch begins with parent-data or schema-only.`,
    )
  const schemaOnly = asked.init_source === 'schema-only'
  if (asked.expires_at && asked.protected) throw new AppError('NOT_ALLOWED', 'A protected branch cannot expire.')
  const id = newBranchId()
  const name = asked.name ?? id
  const { project, parent, moment, seen } = await lockParent(context, projectId, { ...asked, name }, look)
  const [asksEndpoint, ...tooMany] = request.endpoints ?? []
  if (tooMany.length > 0) throw new AppError('ENDPOINTS_LIMIT_EXCEEDED')
  const subject = { account_id: project.account_id, project_id: project.id, branch_id: id }
  const input = { parent_id: parent.id, ...(moment && { moment }), ...(schemaOnly && { schema_only: true }) }
  // Pipelined in this order: the project's other requests wait for its row.
  const [, branch, , { roles, databases }, operation] = await Promise.all([
    requireDiskForCopy(context, parent.id),
    insertBranch(db, {
      id,
      name,
      account_id: project.account_id,
      project_id: project.id,
      parent_id: schemaOnly ? null : parent.id,
      source_id: parent.id,
      init_source: schemaOnly ? 'schema-only' : null,
      is_apart: schemaOnly || anonymization !== undefined,
      is_default: false,
      protected: asked.protected ?? false,
      expires_at: expiryOf(asked, project),
      annotation: request.annotation_value ?? {},
      ...(moment && momentColumns(moment)),
      source_store_id: moment?.store_id,
    }),
    seen && noteConfig(db, parent, seen),
    copyRolesAndDatabases(db, parent.id, id, { withChanges: !moment }),
    requestOperation(db, createBranchAction, subject, input),
  ])
  const masking = anonymization ? await anonymizeNew(db, branch, anonymization) : []
  const isClosed = anonymization?.starts === false
  const made = asksEndpoint && (await createEndpoint(context, project, branch, asksEndpoint, { starts: !isClosed }))
  const operations = [operation, ...masking, ...(made?.operations ?? [])]
  const present = anonymization ? await requireBranch(context, projectId, id) : branch
  return { branch: present, endpoint: made?.endpoint, operations, roles, databases }
}

/**
 * Locks the project and the configuration of a new branch's parent until the transaction ends, and checks that the
 * branch may be made.
 * @returns moment: that of the parent whose data it gets; undefined for the present
 * @returns seen: the reading, if it is current and the catalog has to take it over
 */
async function lockParent(
  context: CommandContext,
  projectId: string,
  asked: NonNullable<NewBranch['branch']> & { readonly name: string },
  look: Look | undefined,
) {
  const { db } = context
  // Pipelined: the project's other requests wait for its row. What the project refuses is said first, since it may be
  // another account's.
  const locking = lockedProject(context, projectId)
  const checking = Promise.all([
    requireRoomForBranch(context, projectId),
    asked.parent_id ? requireBranch(context, projectId, asked.parent_id) : findDefaultBranch(db, projectId),
    requireFreeBranchName(context, projectId, asked.name),
    look && isCurrent(db, look),
    look && agreesWith(db, look.endpoint.branch_id, look.seen),
  ])
  checking.catch(() => undefined)
  const project = await locking
  const [, parent, , isSeen, isKnown] = await checking
  if (!parent) throw new AppError('NOT_FOUND', 'The project has no default branch to branch from; give parent_id.')
  requireData(parent)
  await requireOpen(context, parent)
  const { parent_timestamp, parent_lsn } = asked
  const moment = await requireMoment(context, project, parent, { parent_timestamp, parent_lsn }, look)
  const isNews = isSeen && !isKnown && look?.endpoint.branch_id === parent.id
  return { project, parent, moment, seen: isNews ? look.seen : undefined }
}

/** The time that a request gives, or that the project gives its branches. */
function expiryOf({ expires_at, protected: isProtected }: NonNullable<NewBranch['branch']>, project: Project) {
  if (expires_at) return requireExpiry(expires_at)
  const seconds = project.settings.branch_ttl_seconds
  if (expires_at === null || isProtected || !seconds) return null
  return new Date(Date.now() + seconds * 1000).toISOString()
}

const momentColumns = ({ target }: StoreMoment) =>
  'lsn' in target ? { parent_lsn: target.lsn } : { parent_timestamp: target.timestamp }

/** Reads roles and databases from the compute of a new branch's parent, like `lookAtBranch`. */
export async function lookAtParent(
  context: CommandContext,
  project_id: string,
  { branch }: NewBranch,
): Promise<Look | undefined> {
  const branch_id = branch?.parent_id ?? (await findDefaultBranch(context.db, project_id))?.id
  return branch_id === undefined ? undefined : lookAtBranch(context, { project_id, branch_id })
}
