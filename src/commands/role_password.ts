import type { Branch } from '../catalog/branch.ts'
import { isNoted, type SeenConfig } from '../catalog/branch_config.ts'
import { listChanges } from '../catalog/config_change.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { type Role, setRolePassword } from '../catalog/role.ts'
import { AppError } from '../errors.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { passwordContext } from '../secrets/contexts.ts'
import { newPassword } from '../secrets/generated.ts'
import { changeableBranch, queueConfigChanges } from './branch_config.ts'
import type { ChangedRole } from './changed.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'
import { type BranchId, requireRole } from './require.ts'

/** Gives a role a new password. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED (it cannot log in). */
export async function resetRolePassword(
  context: CommandContext,
  id: BranchId,
  name: string,
  look: Look | undefined,
): Promise<ChangedRole> {
  const { project, branch } = await changeableBranch(context, id, look)
  const role = await requireRole(context, branch, name)
  if (!role.login)
    throw new AppError(
      'NOT_ALLOWED',
      `The role "${role.name}" cannot log in. Let it, by SQL: ALTER ROLE … LOGIN; then reset its password.`,
    )
  const { password, sealed, verifier } = await passwordFor(context, role.name)
  const changed = await setRolePassword(context.db, role, { password: sealed, verifier })
  return { role: changed, password, operations: await queueConfigChanges(context, project, branch) }
}

/** A new password for a role: in plain text, encrypted for the catalog, and as a verifier for Postgres. */
export async function passwordFor({ secrets }: CommandContext, name: string) {
  const password = newPassword()
  return {
    password,
    sealed: secrets.encrypt('password', password, passwordContext(name)),
    verifier: await scramVerifier(password),
  }
}

/** The password of a role as Neap generated it. Errors: NOT_ALLOWED (it has no password, or one set by SQL). */
export function passwordOf({ secrets }: CommandContext, role: Role): string {
  if (role.password) return secrets.decrypt('password', role.password, passwordContext(role.name))
  if (!role.login) throw new AppError('NOT_ALLOWED', `The role "${role.name}" cannot log in, so it has no password.`)
  throw new AppError(
    'NOT_ALLOWED',
    role.verifier
      ? setBySql(role.name)
      : `The role "${role.name}" was made by SQL without a password. Set one with reset_password.`,
  )
}

export const setBySql = (name: string) =>
  `The password of the role "${name}" was set by SQL, so it is not known here. ` +
  'Use it, or set a new one with reset_password.'

/**
 * The password of a role, returned only if it is still the one in Postgres, as far as known.
 * @param seen the reading of the branch's compute, if it answered
 * Errors: NOT_ALLOWED, UNAVAILABLE.
 */
export async function knownPassword(
  context: CommandContext,
  branch: Branch,
  role: Role,
  seen: SeenConfig | undefined,
): Promise<string> {
  const password = passwordOf(context, role)
  const inPostgres = seen?.roles.find(({ name }) => name === role.name)
  if (inPostgres?.verifier !== role.verifier) await requireKnown(context, branch, role, seen !== undefined)
  return password
}

/**
 * Checks that a password that Postgres did not confirm was not changed by SQL meanwhile. Errors: UNAVAILABLE,
 * NOT_ALLOWED.
 */
async function requireKnown({ db }: CommandContext, branch: Branch, { name }: Role, answered: boolean): Promise<void> {
  // A password still to be applied to Postgres replaces any that was set by SQL.
  if ((await listChanges(db, branch.id)).some(({ change }) => 'verifier' in change && change.name === name)) return
  if (answered) throw new AppError('NOT_ALLOWED', setBySql(name))
  const endpoint = await findBranchEndpoint(db, branch.id)
  if (endpoint?.current_state === 'active')
    throw new AppError(
      'UNAVAILABLE',
      `The compute does not say whether the password of "${name}" is still the one that was given out. ` +
        'Try again shortly.',
    )
  if (!(await isNoted(db, branch.id)))
    throw new AppError(
      'NOT_ALLOWED',
      `The compute ended without saying whether the password of "${name}" is still the one that was given out. ` +
        'Start the endpoint and ask again, or use reset_password.',
    )
}
