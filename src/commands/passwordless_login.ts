import type { Branch } from '../catalog/branch.ts'
import type { SeenConfig } from '../catalog/branch_config.ts'
import { answerPasswordlessLogin, findPasswordlessLogin, type ShownLogin } from '../catalog/passwordless_login.ts'
import { AppError } from '../errors.ts'
import { sealTo } from '../key_handover.ts'
import { canonicalLoginCode } from '../login_code.ts'
import { keysFor } from '../postgres/scram_verifier.ts'
import type { CommandContext } from './command.ts'
import { readBranch } from './look.ts'
import { requireEndpoint, requireRole } from './require.ts'
import { knownPassword, setBySql } from './role_password.ts'

/** The person or key that answers, and the one project of that key, if it is for one. */
export interface Approver {
  readonly personId: string | undefined
  readonly apiKeyId: number | undefined
  readonly projectId: string | null
}

/**
 * The login at an endpoint of the caller's account that shows this code. Errors: NOT_FOUND, the same for a code that
 * does not exist as for another account's.
 */
export async function requirePasswordlessLogin(
  { db, account, secrets }: CommandContext,
  code: string,
  approver: Pick<Approver, 'projectId'>,
  lock = { locks: false },
): Promise<ShownLogin> {
  const canonical = canonicalLoginCode(code)
  const hashes = canonical === undefined ? [] : secrets.hashLoginCode(canonical)
  const login = await findPasswordlessLogin(db, account.id, hashes, lock)
  if (!login || (approver.projectId !== null && approver.projectId !== login.project_id))
    throw new AppError(
      'NOT_FOUND',
      'No login of this organization shows that code. Compare it with the terminal, or connect again for another.',
    )
  return login
}

/** The branch of a login, and the reading of its compute if one runs. Wakes no compute. */
export interface LoginBranch {
  readonly branch: Branch
  readonly seen: SeenConfig | undefined
}

/** Reads the roles at the compute of a login's branch. Call before the transaction of the approval. */
export async function lookAtLogin(context: CommandContext, code: string, approver: Approver): Promise<LoginBranch> {
  const { project_id, branch_id } = await requirePasswordlessLogin(context, code, approver)
  return readBranch(context, { project_id, branch_id })
}

/**
 * Lets a waiting login in: seals the keys of its role to the key of its proxy. Errors: NOT_FOUND, CONFLICT (it waits no
 * more), NOT_ALLOWED (passwordless access is off by now; Neap does not know the password of the role).
 */
export async function approvePasswordlessLogin(
  context: CommandContext,
  code: string,
  approver: Approver,
  { branch, seen }: LoginBranch,
): Promise<ShownLogin> {
  const login = await waitingLogin(context, code, approver)
  const endpoint = await requireEndpoint(context, login)
  if (!endpoint.passwordless_access || endpoint.disabled || endpoint.branch_id !== branch.id)
    throw new AppError('NOT_ALLOWED', `Endpoint ${endpoint.id} was changed since the login began. Connect again.`)
  const role = await requireRole(context, branch, login.role_name)
  const password = await knownPassword(context, branch, role, seen)
  const keys = await keysFor(password, role.verifier ?? '')
  if (!keys) throw new AppError('NOT_ALLOWED', setBySql(role.name))
  const sealedKeys = sealTo(login.public_key, Buffer.concat([keys.clientKey, keys.serverKey]), {
    loginId: login.id,
    endpointId: endpoint.id,
    role: role.name,
  })
  await answerPasswordlessLogin(context.db, login, { status: 'approved', sealedKeys, ...approver })
  return { ...login, status: 'approved' }
}

/** Refuses a waiting login. Errors: NOT_FOUND, CONFLICT (it waits no more). */
export async function refusePasswordlessLogin(
  context: CommandContext,
  code: string,
  approver: Approver,
): Promise<ShownLogin> {
  const login = await waitingLogin(context, code, approver)
  await answerPasswordlessLogin(context.db, login, { status: 'refused', ...approver })
  return { ...login, status: 'refused' }
}

const ENDED: Readonly<Record<Exclude<ShownLogin['status'], 'pending'>, string>> = {
  approved: 'This login was approved already.',
  taken: 'This login was approved already.',
  refused: 'This login was refused already. Connect again for another code.',
  withdrawn: 'The client waits no more. Connect again for another code.',
}

async function waitingLogin(context: CommandContext, code: string, approver: Approver): Promise<ShownLogin> {
  const login = await requirePasswordlessLogin(context, code, approver, { locks: true })
  if (login.status !== 'pending') throw new AppError('CONFLICT', ENDED[login.status])
  if (login.expired) throw new AppError('CONFLICT', 'Its two minutes are over. Connect again for another code.')
  return login
}
