import { lookup } from 'node:dns/promises'
import type { Config } from '../config.ts'

/** What follows the endpoint id in a host name, and the host of the regional proxy. */
export const proxyHost = (config: Config): string => `${config.region}.${config.domain}`

/** Whether the names that endpoints get resolve on this machine; some resolvers know `*.localhost` (RFC 6761), some do not. */
export async function namesResolve(config: Config): Promise<boolean> {
  return lookup(`neap-name-check.${proxyHost(config)}`).then(
    () => true,
    () => false,
  )
}

export interface Connection {
  readonly endpointId: string
  readonly role: string
  readonly password: string
  readonly database: string
  readonly pooled?: boolean
}

/**
 * A URI that connects as it stands. Where endpoint names do not resolve it goes to `localhost` and names the endpoint in
 * `options`, which every libpq and driver passes on.
 */
export function connectionUri(config: Config, resolves: boolean, connection: Connection): string {
  const id = connection.endpointId + (connection.pooled ? '-pooler' : '')
  const user = `${encodeURIComponent(connection.role)}:${encodeURIComponent(connection.password)}`
  const host = resolves ? `${id}.${proxyHost(config)}` : 'localhost'
  const query = resolves ? 'sslmode=require' : `sslmode=require&options=endpoint%3D${id}`
  return `postgresql://${user}@${host}:${config.proxyPort}/${encodeURIComponent(connection.database)}?${query}`
}
