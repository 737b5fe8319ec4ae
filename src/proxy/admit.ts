import { ProxyError } from './errors.ts'
import type { Startup } from './startup.ts'

/** Names that begin so are Neap's own roles in every compute. */
const OWN_ROLES = /^neap_/

/**
 * Decides whether this user may go on to the endpoint, before the endpoint is looked up or woken. Neap's own roles are
 * turned away as a wrong password would be; everyone else is authenticated by the compute.
 * Errors: no_user, wrong_password.
 */
export function admit({ parameters }: Startup): void {
  const user = parameters.get('user') ?? ''
  if (user === '') throw new ProxyError('no_user')
  if (!OWN_ROLES.test(user)) return
  const name = Buffer.from(user, 'latin1').toString()
  throw new ProxyError('wrong_password', { text: `password authentication failed for user "${name}"` })
}
