import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyRequest } from 'fastify'

const MAX_AGE_SECONDS = 30 * 86_400

/**
 * The token in a request's session cookie. Browsers send cookies of one host to all of its ports, so the name has the
 * port that the browser addressed: several Neaps on one machine keep sessions of their own.
 */
export function cookieOf({ headers }: FastifyRequest): string | undefined {
  return headers.cookie === undefined ? undefined : parseCookie(headers.cookie)[nameFor(headers.host)]
}

/** The header Set-Cookie that stores a session's token in a browser; without a token it deletes the cookie. */
export function setCookie({ headers, protocol }: FastifyRequest, token: string | undefined): string {
  return stringifySetCookie({
    name: nameFor(headers.host),
    value: token ?? '',
    path: '/',
    httpOnly: true,
    sameSite: 'strict',
    secure: protocol === 'https' || headers['x-forwarded-proto'] === 'https',
    maxAge: token === undefined ? 0 : MAX_AGE_SECONDS,
  })
}

const nameFor = (host = ''): string => `neap_session_${/:(\d+)$/.exec(host)?.[1] ?? 'default'}`
