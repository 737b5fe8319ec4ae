/*
 * The addresses that webhooks may reach. Neap has access to networks that its users lack; a user's URL must not reach
 * into those. Each attempt resolves the name once, judges every address, and connects only to judged addresses.
 */
import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { type BlockList, isIP } from 'node:net'
import { AppError } from '../errors.ts'
import { cidrList, CLOSED_V4, CLOSED_V6, GLOBAL_V6 } from '../network.ts'

/** Why a request was not sent or answered, for the creator of the webhook: it discloses no internal detail. */
export class NotDelivered extends Error {
  override readonly name = 'NotDelivered'
}

/** The addresses of a name. Errors: the resolver's own. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>

export const systemResolve: Resolve = (host) => lookup(host, { all: true, order: 'verbatim' })

const closed = cidrList([...CLOSED_V4, ...CLOSED_V6])
const global = cidrList(GLOBAL_V6)

type Verdict = 'allowed' | 'public' | 'closed'

/** Whether an address lies in an allowed network, is public, or neither. */
export function judge(address: string, allowed: BlockList): Verdict {
  const family = isIP(address)
  if (family === 4) {
    if (allowed.check(address, 'ipv4')) return 'allowed'
    return closed.check(address, 'ipv4') ? 'closed' : 'public'
  }
  // A zone (`%eth0`) belongs to a link, so the address is not public.
  if (family !== 6 || address.includes('%')) return 'closed'
  if (allowed.check(address, 'ipv6')) return 'allowed'
  return global.check(address, 'ipv6') && !closed.check(address, 'ipv6') ? 'public' : 'closed'
}

const NOT_REACHED = 'is neither public nor in a network of NEAP_WEBHOOK_ALLOW'
const PLAIN = 'http is for networks of NEAP_WEBHOOK_ALLOW only: use https'

/**
 * Validates and normalizes the URL of a webhook, without resolving its name.
 * Errors: INVALID_REQUEST (not a URL of http or https); NOT_ALLOWED (a user or password, or a URL that will never be
 * reached).
 */
export function requireWebhookUrl(text: string, allow: readonly string[]): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:')
    throw new AppError('INVALID_REQUEST', 'invalid request: webhook.url is not a URL that begins with https://')
  if (url.username || url.password)
    throw new AppError('NOT_ALLOWED', 'webhook.url holds a user or password: leave them out, requests are signed.')
  const host = hostOf(url)
  const verdict = isIP(host) ? judge(host, cidrList(allow)) : undefined
  if (verdict === 'closed') throw new AppError('NOT_ALLOWED', `The address in webhook.url ${NOT_REACHED}.`)
  if (url.protocol === 'http:' && (verdict === 'public' || allow.length === 0))
    throw new AppError('NOT_ALLOWED', `${PLAIN}.`)
  url.hash = ''
  return url.href
}

/**
 * Resolves the host of a URL to its addresses. One address that is not allowed refuses all: no legitimate name has one.
 * Errors: NotDelivered.
 */
export async function addressesOf(url: URL, allowed: BlockList, resolve: Resolve): Promise<readonly LookupAddress[]> {
  const host = hostOf(url)
  const family = isIP(host)
  const addresses = family ? [{ address: host, family }] : await resolve(host).catch(unresolved)
  if (addresses.length === 0) return unresolved()
  const verdicts = addresses.map(({ address }) => judge(address, allowed))
  if (verdicts.includes('closed')) throw new NotDelivered(`its address ${NOT_REACHED}`)
  if (url.protocol !== 'https:' && verdicts.includes('public')) throw new NotDelivered(PLAIN)
  return addresses
}

function unresolved(): never {
  throw new NotDelivered('its name has no address')
}

/** Without the brackets that IPv6 has in URLs. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1')
