import { parseAddress, parseRange } from '../address_range.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import type { Branch } from '../catalog/branch.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import type { CommandContext } from './command.ts'
import { readBranch } from './look.ts'
import { type BranchId, requireProject, requireRole } from './require.ts'
import { knownPassword } from './role_password.ts'

/**
 * The endpoint of a branch, and the password of a role there, for a session in that role's name.
 * @param address of the caller, to which the project's allowed addresses apply as to any client
 * Errors: NOT_FOUND, NOT_ALLOWED (no endpoint, the address, or a password that Neap does not know), UNAVAILABLE.
 */
export async function sqlAccess(
  context: CommandContext,
  id: BranchId,
  roleName: string,
  address: string,
): Promise<{ endpointId: string; password: string }> {
  const project = await requireProject(context, id.project_id)
  const { branch, seen } = await readBranch(context, id)
  const role = await requireRole(context, branch, roleName)
  requireAllowed(project, branch, address)
  const endpoint = await findBranchEndpoint(context.db, branch.id)
  if (!endpoint)
    throw new AppError('NOT_ALLOWED', `The branch ${branch.id} has no compute to run SQL. Create an endpoint first.`)
  return { endpointId: endpoint.id, password: await knownPassword(context, branch, role, seen) }
}

function requireAllowed({ settings }: Project, branch: Branch, address: string): void {
  const { ips = [], protected_branches_only = false } = settings.allowed_ips ?? {}
  // An administrator at the machine has no address; there the proxy decides alone.
  if (address === '' || ips.length === 0 || (protected_branches_only && !branch.protected)) return
  const number = parseAddress(address)
  const isAllowed = ips.some((entry) => {
    const range = parseRange(entry)
    return number !== undefined && range !== undefined && range.first <= number && number <= range.last
  })
  if (!isAllowed)
    throw new AppError('NOT_ALLOWED', `Your address ${address} is not in the allowed addresses of this project.`)
}
