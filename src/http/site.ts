import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import type { Site } from '../commands/passkey.ts'
import { AppError } from '../errors.ts'

/**
 * The site that a browser addressed, by its Origin header, which its pages cannot forge, and which must be of the host
 * that the request is for. Errors: NOT_ALLOWED (no browser, or an address without a name).
 */
export function siteOf({ origin = '', host = '', ...headers }: IncomingHttpHeaders): Site {
  const addressed = [headers['x-forwarded-host'] ?? host].flat()[0] ?? ''
  const url = URL.canParse(origin) ? new URL(origin) : undefined
  if (url === undefined || url.host !== addressed.toLowerCase())
    throw new AppError('NOT_ALLOWED', 'Passkeys are used by a browser at the address of this Neap.')
  // WebAuthn Level 3, section 5.1.3: an IP address is no relying party.
  if (isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0)
    throw new AppError(
      'NOT_ALLOWED',
      'Passkeys need a host name, which the address of this page is not. On this machine open it as localhost.',
    )
  return { rpId: url.hostname, origin: url.origin }
}
