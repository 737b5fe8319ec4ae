/* Where clients reach this Neap: what follows from the settings, for connection strings, certificates and what people are told. */
import { isIP, isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import type { Config } from './config.ts'
import { isLoopback, isWildcard, type ListenAddress } from './network.ts'

/** The settings that say where clients reach a Neap. */
export type ReachSettings = Pick<
  Config,
  'listen' | 'publicHost' | 'publicPort' | 'proxyPort' | 'apiPort' | 'region' | 'domain' | 'tlsCert'
>

export function reachOf(config: ReachSettings): ReachSettings {
  const { listen, proxyPort, apiPort, region, domain, tlsCert } = config
  return {
    listen,
    publicHost: config.publicHost,
    publicPort: config.publicPort,
    proxyPort,
    apiPort,
    region,
    domain,
    tlsCert,
  }
}

/** What follows the endpoint id in a host name, and the host of the regional proxy. */
export const proxyHost = ({ region, domain }: Pick<Config, 'region' | 'domain'>): string => `${region}.${domain}`

/** Whether other machines can connect. */
export const isOpen = ({ listen }: Pick<Config, 'listen'>): boolean => !listen.every(isLoopback)

/** The host that clients connect to where they do not resolve the names of endpoints: as set, else what is listened on. */
export function publicHost({ listen, publicHost: given }: Pick<ReachSettings, 'listen' | 'publicHost'>): string {
  if (given !== undefined) return given
  const open = listen.find((address) => !isLoopback(address))
  // `localhost` is 127.0.0.1 on every machine; other addresses of loopback have no common name.
  if (open === undefined) return listen.includes('127.0.0.1') ? 'localhost' : (listen[0] ?? 'localhost')
  return isWildcard(open) ? hostname().toLowerCase() : open
}

/** The port of the proxy as clients reach it. */
export const publicPort = ({ publicPort: given, proxyPort }: Pick<ReachSettings, 'publicPort' | 'proxyPort'>): number =>
  given ?? proxyPort

/**
 * Whether clients resolve the names of endpoints: where the public host is set, by what it says; else as this machine does. Names below
 * `localhost` are those of one machine alone (RFC 6761).
 */
export function clientsResolve(reach: ReachSettings, here: boolean): boolean {
  if (reach.publicHost !== undefined) return reach.publicHost === proxyHost(reach)
  return here && !(isOpen(reach) && /(^|\.)localhost$/.test(reach.domain))
}

/** A host as a URL has it: IPv6 in brackets (RFC 3986, section 3.2.2). */
export const inUrl = (host: string): string => (isIPv6(host) ? `[${host}]` : host)

/** The address of the API for people and programs, without its path. */
export function apiOrigin(reach: ReachSettings): string {
  const plain = reach.listen.find(isLoopback)
  // Programs on this machine need no certificate there.
  if (plain !== undefined) return `http://${inUrl(plain)}:${reach.apiPort}`
  return `https://${inUrl(publicHost(reach))}:${reach.apiPort}`
}

/** Where the proxy listens: on its own port, and on the extra one, at each address. The first is the one that people are told of. */
export function proxyPlaces({
  listen,
  proxyPort,
  apiPort,
  extraProxyPort,
}: Pick<Config, 'listen' | 'proxyPort' | 'apiPort' | 'extraProxyPort'>): ListenAddress[] {
  const own = listen.map((host) => ({ host, port: proxyPort }))
  // The API's port is taken a moment later.
  if ([0, proxyPort, apiPort].includes(extraProxyPort)) return own
  return [...own, ...listen.map((host) => ({ host, port: extraProxyPort, isOptional: true }))]
}

/** The names and addresses that the proxy's certificate is made out to, beside those of every Neap. */
export function certifiedHosts(reach: Pick<ReachSettings, 'listen' | 'publicHost'>): { dns: string[]; ip: string[] } {
  const hosts = [publicHost(reach), ...reach.listen.filter((address) => !isWildcard(address))]
  const [ip, dns] = [hosts.filter((host) => isIP(host) !== 0), hosts.filter((host) => isIP(host) === 0)]
  return { dns, ip }
}
