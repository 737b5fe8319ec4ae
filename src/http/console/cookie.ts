import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyRequest } from 'fastify'

const MAX_AGE_SECONDS = 30 * 86_400

/**
 * The token in a request's session cookie. Browsers send cookies of one host to all of its ports, so the name has the
 * port that the browser addressed: several Neaps on one machine keep sessions of their own.
 */
export function cookieOf(request: FastifyRequest): string | undefined {
  const { headers } = request
  return headers.cookie === undefined ? undefined : parseCookie(headers.cookie)[nameFor(request)]
}

/** The header Set-Cookie that stores a session's token in a browser; without a token it deletes the cookie. */
export function setCookie(request: FastifyRequest, token: string | undefined): string {
  return stringifySetCookie({
    name: nameFor(request),
    value: token ?? '',
    path: '/',
    httpOnly: true,
    sameSite: 'strict',
    secure: isSecure(request),
    maxAge: token === undefined ? 0 : MAX_AGE_SECONDS,
  })
}

/** Whether the browser sends its requests over TLS, to this process or to a proxy before it. */
export const isSecure = ({ headers, protocol }: FastifyRequest): boolean =>
  protocol === 'https' || headers['x-forwarded-proto'] === 'https'

/** The port that the browser addressed. */
export const portOf = ({ headers }: FastifyRequest): string => /:(\d+)$/.exec(headers.host ?? '')?.[1] ?? 'default'

const nameFor = (request: FastifyRequest): string => `neap_session_${portOf(request)}`
