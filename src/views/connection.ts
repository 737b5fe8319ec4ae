import { Type } from 'typebox'
import type { Endpoint } from '../catalog/endpoint.ts'
import type { Config } from '../config.ts'
import { clientsResolve, inUrl, proxyHost, publicHost, publicPort } from '../public_address.ts'

export const ConnectionDetails = Type.Object({
  connection_uri: Type.String(),
  connection_parameters: Type.Object({
    database: Type.String(),
    password: Type.String(),
    role: Type.String(),
    host: Type.String(),
    pooler_host: Type.String(),
  }),
})

/** Connection details of a new branch, in the API's format. */
export function connectionDetails(
  { config, namesResolve }: { readonly config: Config; readonly namesResolve: () => boolean },
  endpoint: Endpoint,
  role: string,
  password: string,
  database: string,
) {
  return {
    connection_uri: connectionUri(config, namesResolve(), {
      endpointId: endpoint.id,
      role,
      password,
      database,
    }),
    connection_parameters: {
      database,
      password,
      role,
      host: `${endpoint.id}.${proxyHost(config)}`,
      pooler_host: `${endpoint.id}-pooler.${proxyHost(config)}`,
    },
  }
}

export interface Connection {
  readonly endpointId: string
  readonly role: string
  /** undefined for a client that is let in by a person. */
  readonly password: string | undefined
  readonly database: string
  readonly pooled?: boolean
}

/**
 * A connection URI that works as given. If clients cannot resolve endpoint names, it uses the public host and names the
 * endpoint in `options`, which every libpq and driver passes on. `options` has the full host name, since some clients
 * derive the pooled host by text replacement.
 * @param resolves whether this machine resolves endpoint names
 */
export function connectionUri(config: Config, resolves: boolean, connection: Connection): string {
  const name = `${connection.endpointId}${connection.pooled ? '-pooler' : ''}.${proxyHost(config)}`
  const { role, password } = connection
  const user = [role, ...(password === undefined ? [] : [password])].map(encodeURIComponent).join(':')
  const isNamed = clientsResolve(config, resolves)
  const host = isNamed ? name : inUrl(publicHost(config))
  const options = [...(isNamed ? [] : [`endpoint%3D${name}`]), ...(password === undefined ? ['passwordless'] : [])]
  const query = ['sslmode=require', ...(options.length > 0 ? [`options=${options.join('%20')}`] : [])].join('&')
  const database = encodeURIComponent(connection.database)
  return `postgresql://${user}@${host}:${publicPort(config)}/${database}?${query}`
}
