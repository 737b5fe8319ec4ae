import { Type } from 'typebox'
import type { Endpoint } from '../catalog/endpoint.ts'
import { proxyHost } from '../public_address.ts'
import { connectionUri } from './names.ts'
import type { RequestContext } from './route.ts'

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

/** How to connect to a new branch, in the form that clients of the API read. */
export function connectionDetails(
  { config, namesResolve }: RequestContext,
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
