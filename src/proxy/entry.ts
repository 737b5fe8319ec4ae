import type { Login } from '../catalog/login.ts'
import { openAhead } from './ahead.ts'
import { isAllowed } from './allowed.ts'
import type { Client } from './client.ts'
import type { ConnectionContext } from './context.ts'
import { ProxyError } from './errors.ts'
import { askForPassword, authenticate, checkPassword, splitPassword } from './login.ts'
import type { Admitted } from './reach.ts'
import type { Route } from './route.ts'
import { encodeStartup } from './startup.ts'

/** A client that may enter. */
export interface LoggedIn extends Admitted {
  readonly endpointId: string
  readonly target: Login
  /** The addresses that may connect to the endpoint; none for all. */
  readonly allowed: readonly string[]
}

/**
 * Has the client show that it knows the password of its role. What else stands against it is said only then: to anybody else it would
 * tell that there is such an endpoint. Errors: no_user, wrong_password, address, disabled_endpoint and what looking for it brings.
 */
export async function logIn(
  { findAdmission, attempts, limits }: ConnectionContext,
  client: Client,
  routed: Route,
): Promise<LoggedIn> {
  const user = Buffer.from(routed.startup.parameters.get('user') ?? '', 'latin1').toString()
  if (user === '') throw new ProxyError('no_user')
  const { stream, address, shows } = client
  const asked = routed.endpointId === undefined || shows === 'password'
  const given = asked ? await askForPassword(stream) : undefined
  const { endpointId, password } =
    routed.endpointId === undefined ? splitPassword(given ?? '') : { endpointId: routed.endpointId, password: given }
  const whose = [address, endpointId, user] as const
  limits.attempt(stream, address, endpointId)
  await attempts.admit(...whose)
  const admission = findAdmission(endpointId, user).then(({ verifier, login }) => {
    const allowed = login?.allowed_ips ?? []
    const mayEnter = login && !routed.pooled && !login.pooler_enabled && !login.disabled && isAllowed(address, allowed)
    return {
      verifier,
      login,
      allowed,
      ahead: mayEnter ? openAhead(login, encodeStartup(routed.startup), stream) : undefined,
    }
  })
  const found = admission.then(({ verifier }) => verifier)
  const shown =
    password === undefined ? authenticate(client, user, found) : checkPassword(stream, user, password, await found)
  const keys = await shown.catch((error: unknown) => {
    if (error instanceof ProxyError && error.reason === 'wrong_password') attempts.failed(...whose)
    throw error
  })
  const { login, allowed, ahead } = await admission
  if (!login) throw new ProxyError('unknown_endpoint')
  if (!isAllowed(address, allowed)) throw notAllowed(address)
  if (login.disabled) throw new ProxyError('disabled_endpoint')
  limits.admit(stream, endpointId)
  return { endpointId, keys, target: login, allowed, ahead }
}

const notAllowed = (address: string | undefined): ProxyError =>
  new ProxyError('address', {
    text: `This IP address ${address} is not allowed to connect to this endpoint. Please add it to the project's allowed_ips. Make sure to check for IPv4 or IPv6 addresses.`,
  })
