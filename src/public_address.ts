/*
 * Addresses that clients connect to, derived from several settings: for connection strings, certificates and messages.
 */
import { isIP, isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import type { Config } from './config.ts'
import { isLoopback, isWildcard, type ListenAddress } from './network.ts'

/** The settings that determine the addresses. */
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

/** The host name of the regional proxy, which is also the suffix of endpoints' host names. */
export const proxyHost = ({ region, domain }: Pick<Config, 'region' | 'domain'>): string => `${region}.${domain}`

/** Whether other machines can connect. */
export const isOpen = ({ listen }: Pick<Config, 'listen'>): boolean => !listen.every(isLoopback)

/** The host for clients that do not resolve the names of endpoints: the setting, else a listen address. */
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
 * Whether clients resolve the names of endpoints: if the public host is set, whether it is that of the regional proxy;
 * else as this machine does. Names below `localhost` belong to one machine alone (RFC 6761).
 */
export function clientsResolve(reach: ReachSettings, here: boolean): boolean {
  if (reach.publicHost !== undefined) return reach.publicHost === proxyHost(reach)
  return here && !(isOpen(reach) && /(^|\.)localhost$/.test(reach.domain))
}

/** A host as a URL has it: IPv6 in brackets (RFC 3986, section 3.2.2). */
export const inUrl = (host: string): string => (isIPv6(host) ? `[${host}]` : host)

/** The address of the API, without its path. */
export function apiOrigin(reach: ReachSettings): string {
  const plain = reach.listen.find(isLoopback)
  // Programs on this machine need no certificate there.
  if (plain !== undefined) return `http://${inUrl(plain)}:${reach.apiPort}`
  return `https://${inUrl(publicHost(reach))}:${reach.apiPort}`
}

/** The address of the console for a person at a client: on this machine as for `apiOrigin`, else the public one. */
export function consoleOrigin(reach: ReachSettings, clientAddress = ''): string {
  if (isLoopback(clientAddress) || !isOpen(reach)) return apiOrigin(reach)
  return `https://${inUrl(publicHost(reach))}:${reach.apiPort}`
}

/** The addresses that the proxy listens on, with its own port and with the extra one. The first is shown to users. */
export function proxyPlaces({
  listen,
  proxyPort,
  apiPort,
  extraProxyPort,
}: Pick<Config, 'listen' | 'proxyPort' | 'apiPort' | 'extraProxyPort'>): ListenAddress[] {
  const own = listen.map((host) => ({ host, port: proxyPort }))
  // The API takes its port a moment later.
  if ([0, proxyPort, apiPort].includes(extraProxyPort)) return own
  return [...own, ...listen.map((host) => ({ host, port: extraProxyPort, isOptional: true }))]
}

/** The names and addresses in the proxy's certificate, in addition to those of every Neap. */
export function certifiedHosts(reach: Pick<ReachSettings, 'listen' | 'publicHost'>): { dns: string[]; ip: string[] } {
  const hosts = [publicHost(reach), ...reach.listen.filter((address) => !isWildcard(address))]
  const [ip, dns] = [hosts.filter((host) => isIP(host) !== 0), hosts.filter((host) => isIP(host) === 0)]
  return { dns, ip }
}
