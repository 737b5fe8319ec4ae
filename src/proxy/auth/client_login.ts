import type { RoleLogin } from '../../catalog/login.ts'
import type { RefusalWriter } from '../../catalog/refusal_writer.ts'
import { networkOf } from '../../network.ts'
import { type AllowedAddresses, compileAllowed, isAllowed } from '../accept/allow_list.ts'
import type { Client } from '../accept/client.ts'
import type { Limits } from '../accept/limits.ts'
import type { Admitted } from '../connect/reach.ts'
import type { ClientRoute } from '../connect/route.ts'
import { openSpeculatively } from '../connect/speculative_open.ts'
import { ProxyError } from '../wire/errors.ts'
import type { ScramKeys } from '../wire/scram.ts'
import { encodeStartup } from '../wire/startup.ts'
import type { Admission, FindAdmission } from './admission.ts'
import type { Attempts } from './attempts.ts'
import {
  askForPassword,
  authenticate,
  type CheckInTurn,
  checkPassword,
  type Derive,
  splitPassword,
} from './authentication.ts'
import type { Derivations } from './derivations.ts'
import type { Passwordless } from './passwordless.ts'

/** State shared by all logins. */
export interface LoginContext {
  readonly findAdmission: FindAdmission
  readonly limits: Limits
  readonly attempts: Attempts
  readonly derivations: Derivations
  readonly passwordless: Passwordless
  readonly refusals: RefusalWriter
}

/** A client after its login. */
export interface LoggedIn extends Admitted {
  readonly endpointId: string
  readonly target: RoleLogin
  /** The addresses that may connect to the endpoint. */
  readonly allowed: AllowedAddresses
  /** Let in by a person for this one session: its keys open no session that other clients share. */
  readonly isAlone?: boolean
}

/**
 * Authenticates the client. Refusals that depend on the endpoint are sent only after the password is proved: earlier
 * they would reveal that it exists. Errors: no_user, wrong_password, address, disabled_endpoint, not_anonymized, and
 * those of limits and lookup.
 */
export async function logIn(context: LoginContext, client: Client, routed: ClientRoute): Promise<LoggedIn> {
  const { findAdmission, limits, refusals } = context
  const user = Buffer.from(routed.startup.parameters.get('user') ?? '', 'latin1').toString()
  if (user === '') throw new ProxyError('no_user')
  if (routed.passwordless) return waitForApproval(context, client, routed, user)
  const { stream, address, authentication } = client
  const asked = routed.endpointId === undefined || authentication === 'password'
  const given = asked ? await askForPassword(stream) : undefined
  const { endpointId, password } =
    routed.endpointId === undefined ? splitPassword(given ?? '') : { endpointId: routed.endpointId, password: given }
  limits.attempt(stream, address, endpointId)
  const admission = findAdmission(endpointId, user).then((found) => {
    const { login } = found
    const allowed = compileAllowed(login?.allowed_ips ?? null)
    const mayEnter =
      login &&
      !routed.pooled &&
      !login.pooler_enabled &&
      !login.disabled &&
      !login.is_closed &&
      isAllowed(address, allowed)
    return {
      ...found,
      allowed,
      speculative: mayEnter ? openSpeculatively(login, encodeStartup(routed.startup), stream) : undefined,
    }
  })
  const proved = provePassword(context, client, { user, endpointId, password, admission })
  const keys = await proved.catch((error: unknown) => {
    if (error instanceof ProxyError && error.reason === 'wrong_password')
      refusals.note({ kind: 'login', subject: endpointId, role: user, network: networkOf(address) })
    throw error
  })
  const { login, allowed, speculative } = await admission
  if (!login) throw new ProxyError('unknown_endpoint')
  if (!isAllowed(address, allowed)) throw notAllowed(address)
  if (login.disabled) throw new ProxyError('disabled_endpoint')
  if (login.is_closed) throw new ProxyError('not_anonymized')
  limits.admit(stream, endpointId)
  client.onLoggedIn?.(endpointId)
  return { endpointId, keys, target: login, allowed, speculative }
}

/** Errors: no_endpoint, unpoolable, and those of limits and of `letIn`. */
async function waitForApproval(
  { passwordless, limits }: LoginContext,
  client: Client,
  { endpointId, pooled, startup }: ClientRoute,
  user: string,
): Promise<LoggedIn> {
  if (endpointId === undefined) throw new ProxyError('no_endpoint')
  if (pooled) throw new ProxyError('unpoolable', { text: 'passwordless login is not supported on a pooled connection' })
  limits.attempt(client.stream, client.address, endpointId)
  const letIn = await passwordless.letIn(client, endpointId, user, startup)
  limits.admit(client.stream, endpointId)
  client.onLoggedIn?.(endpointId)
  return { endpointId, ...letIn, isAlone: true }
}

interface Asked {
  readonly user: string
  readonly endpointId: string
  /** The clear-text password, if the client sent one. */
  readonly password: string | undefined
  readonly admission: Promise<Admission>
}

function provePassword(
  { attempts, derivations }: LoginContext,
  client: Client,
  { user, endpointId, password, admission }: Asked,
): Promise<ScramKeys> {
  const { stream, address } = client
  const attempt = { address, endpointId, role: user }
  const inTurn: CheckInTurn = (check, isRight) => attempts.check(stream, attempt, check, isRight)
  if (password === undefined) {
    const found = admission.then(({ verifier }) => verifier)
    return authenticate(client, user, found, inTurn)
  }
  const derive: Derive = (...args) => derivations.derive(stream, endpointId, ...args)
  return admission.then((found) => checkPassword(stream, user, password, found, inTurn, derive))
}

const notAllowed = (address: string | undefined): ProxyError =>
  new ProxyError('address', {
    text:
      `This IP address ${address} is not allowed to connect to this endpoint. ` +
      "Please add it to the project's allowed_ips. Make sure to check for IPv4 or IPv6 addresses.",
  })
