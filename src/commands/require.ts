import { type Branch, findBranch, findBranchNamed, isClosed } from '../catalog/branch.ts'
import { countAgainstLimit } from '../catalog/branch_limit.ts'
import { type Database, findDatabase } from '../catalog/database.ts'
import { type Endpoint, findProjectEndpoint, lockEndpoint } from '../catalog/endpoint.ts'
import { isDiskShort } from '../catalog/host.ts'
import { findMasking } from '../catalog/masking.ts'
import { hasQueued, hasUnfinishedOperations } from '../catalog/operation.ts'
import { findProject, lockProject, type Project } from '../catalog/project.ts'
import { findRole, type Role } from '../catalog/role.ts'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import { limitsOf } from './account_limits.ts'
import type { CommandContext } from './command.ts'

const noProject = (id: string) => new AppError('NOT_FOUND', `project ${id} not found`)

/** The caller's project. Errors: NOT_FOUND, also for another account's. */
export async function requireProject({ db, account }: CommandContext, id: string): Promise<Project> {
  const project = await findProject(db, account.id, id)
  if (!project) throw noProject(id)
  return project
}

/**
 * The caller's project, locked: the transaction may insert operations after this. Errors: NOT_FOUND, LOCKED (with
 * strict locking, while the project has unfinished operations), RATE_LIMITED (it has as many as it may).
 * @param options.relieves the request removes or suspends, which the limit of operations does not refuse
 */
export async function lockedProject(
  { db, account, config }: CommandContext,
  id: string,
  { strict = true, relieves = false } = {},
): Promise<Project> {
  // Pipelined: other requests wait for the row. The second statement runs when it is locked.
  const [project, isFull] = await Promise.all([
    lockProject(db, account.id, id),
    !relieves && hasQueued(db, id, config.operationsLimit),
  ])
  if (!project) throw noProject(id)
  if (strict && config.strictLocking && (await hasUnfinishedOperations(db, id))) throw new AppError('LOCKED')
  if (isFull)
    throw new AppError(
      'RATE_LIMITED',
      `The project has ${config.operationsLimit} operations queued or running, as many as it may. Try again shortly.`,
    )
  return project
}

/** A branch of a project, which the caller has checked to be the account's own. Errors: NOT_FOUND. */
export async function requireBranch({ db }: CommandContext, projectId: string, id: string): Promise<Branch> {
  const branch = await findBranch(db, projectId, id)
  if (!branch) throw new AppError('NOT_FOUND', `branch ${id} not found`)
  return branch
}

/** A future time, as RFC 3339 in UTC. Errors: INVALID_REQUEST, NOT_ALLOWED (it has passed). */
export function requireFuture(field: string, text: string): string {
  const time = Date.parse(text)
  if (Number.isNaN(time)) throw new AppError('INVALID_REQUEST', `invalid request: ${field} is not a date and time`)
  if (time <= Date.now()) throw new AppError('NOT_ALLOWED', `${field} (${text}) is over already.`)
  return new Date(time).toISOString()
}

const MAX_EXPIRY_DAYS = 30

/** The time at which a branch is to expire. Errors: as `requireFuture`, and NOT_ALLOWED (over 30 days ahead). */
export function requireExpiry(text: string): string {
  const time = requireFuture('expires_at', text)
  // A client may have counted its days from a clock that is ahead.
  if (Date.parse(time) > Date.now() + (MAX_EXPIRY_DAYS * 86_400 + 60) * 1000)
    throw new AppError('NOT_ALLOWED', `expires_at (${text}) is more than ${MAX_EXPIRY_DAYS} days ahead.`)
  return time
}

/** Errors: NOT_ALLOWED (another region than this Neap's). */
export function requireRegion(config: Config, region: string | undefined): void {
  if (region !== undefined && region !== config.region)
    throw new AppError(
      'NOT_ALLOWED',
      `There is no region ${region} here; this is ${config.region}. Leave region_id out, or give that.`,
    )
}

/** Errors: NOT_FOUND (not the caller's organization). */
export function requireOrganization({ account }: CommandContext, id: string | undefined): void {
  if (id !== undefined && id !== account.organization_id)
    throw new AppError('NOT_FOUND', `organization ${id} not found`)
}

export interface EndpointId {
  readonly project_id: string
  readonly endpoint_id: string
}

/** An endpoint, locked with its project until the transaction ends. Options and errors: as `lockedProject`. */
export async function lockedEndpoint(
  context: CommandContext,
  id: EndpointId,
  options: { relieves?: boolean } = {},
): Promise<Endpoint> {
  await lockedProject(context, id.project_id, options)
  const endpoint = await requireEndpoint(context, id)
  return (await lockEndpoint(context.db, endpoint.id)) as Endpoint
}

/** An endpoint of a project, which the caller has checked to be the account's own. Errors: NOT_FOUND. */
export async function requireEndpoint({ db }: CommandContext, id: EndpointId): Promise<Endpoint> {
  const endpoint = await findProjectEndpoint(db, id.project_id, id.endpoint_id)
  if (!endpoint) throw new AppError('NOT_FOUND', `endpoint ${id.endpoint_id} not found`)
  return endpoint
}

export interface BranchId {
  readonly project_id: string
  readonly branch_id: string
}

/** Errors: NOT_ALLOWED (the data of the branch are still to be masked; names what failed). */
export async function requireOpen({ db }: CommandContext, branch: Branch): Promise<void> {
  if (!isClosed(branch)) return
  const failure = branch.masking_state === 'error' ? (await findMasking(db, branch.id))?.message : undefined
  const reason = failure ? `${failure}. Change its rules, and anonymize it again.` : 'anonymize it first.'
  throw new AppError('NOT_ALLOWED', `The data of the branch ${branch.id} are not masked yet: ${reason}`)
}

/** Errors: BRANCH_ALREADY_EXISTS. */
export async function requireFreeBranchName({ db }: CommandContext, projectId: string, name: string): Promise<void> {
  if (await findBranchNamed(db, projectId, name))
    throw new AppError('BRANCH_ALREADY_EXISTS', `branch already exists; branch_name:"${name}"`)
}

/** Checks the limit for one more branch, or for the copy of a restore. Errors: BRANCHES_LIMIT_EXCEEDED. */
export async function requireRoomForBranch(context: CommandContext, projectId: string): Promise<void> {
  const { branches } = limitsOf(context)
  if ((await countAgainstLimit(context.db, projectId)) >= branches)
    throw new AppError(
      'BRANCHES_LIMIT_EXCEEDED',
      `A project may have ${branches} branches. Delete one, or raise branches_limit (neap account).`,
    )
}

/** Rejects requests for a schema of the past. Errors: NOT_ALLOWED. */
export function requireNow(moments: Record<string, string | undefined>): void {
  const [asked] = Object.entries(moments).find(([, value]) => value) ?? []
  if (asked !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `Leave ${asked} out for the schema now. For that of the past create a branch at that moment, and ask it.`,
    )
}

/** Postgres truncates names to 63 bytes and reserves `pg_`; Neap reserves `neap_`. Errors: NOT_ALLOWED. */
export function requireName(kind: 'role' | 'database', name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes === 0 || bytes > 63 || name.includes('\0') || !name.isWellFormed())
    throw new AppError('NOT_ALLOWED', `A ${kind} name has 1 to 63 bytes of UTF-8, none of them zero.`)
  const reserved = kind === 'role' ? /^(pg_|neap_)|^(public|none|postgres)$/ : /^(neap|postgres|template0|template1)$/
  if (reserved.test(name)) throw new AppError('NOT_ALLOWED', `The ${kind} name "${name}" is reserved; choose another.`)
}

/** Errors: NOT_FOUND. */
export async function requireRole({ db }: CommandContext, branch: Branch, name: string): Promise<Role> {
  const role = await findRole(db, branch.id, name)
  if (!role) throw new AppError('NOT_FOUND', `role not found; role_name:"${name}"`)
  return role
}

export async function requireDatabase({ db }: CommandContext, branch: Branch, name: string): Promise<Database> {
  const database = await findDatabase(db, branch.id, name)
  if (!database) throw new AppError('NOT_FOUND', `database not found; database_name:"${name}"`)
  return database
}

/** Errors: NOT_ALLOWED when the disk of the host that has a branch is almost full. */
export async function requireDiskForCopy({ db }: CommandContext, branchId: string): Promise<void> {
  if (await isDiskShort(db, branchId))
    throw new AppError('NOT_ALLOWED', 'The disk of its host is almost full: make room there, or delete branches first.')
}

/** Errors: NOT_ALLOWED (the creation of the branch has failed). */
export function requireData(branch: Branch): void {
  if (branch.current_state === 'init' && branch.pending_state === null)
    throw new AppError('NOT_ALLOWED', `The branch ${branch.id} could not be made and holds no data.`)
}
