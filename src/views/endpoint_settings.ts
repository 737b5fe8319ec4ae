import { Type } from 'typebox'
import { PROVISIONERS } from '../catalog/endpoint.ts'
import { TextMap } from './text_map.ts'

export const PreloadLibraries = Type.Object(
  { use_defaults: Type.Optional(Type.Boolean()), enabled_libraries: Type.Optional(Type.Array(Type.String())) },
  { description: 'Neap preloads no libraries: lists other than empty ones are refused' },
)

export const PgbouncerSettings = Type.Record(Type.String(), Type.String(), {
  description: 'Neap pools connections without PgBouncer: settings of it are refused',
})

const others = {
  pgbouncer_settings: Type.Optional(PgbouncerSettings),
  preload_libraries: Type.Optional(PreloadLibraries),
}

/** The settings of an endpoint in requests. */
export const EndpointSettings = Type.Object({ pg_settings: Type.Optional(TextMap), ...others })

/** The settings of an endpoint in responses. Source: the API's reference, whose endpoints all have `pg_settings`. */
export const ShownEndpointSettings = Type.Object({ pg_settings: TextMap, ...others })

export const Provisioner = Type.String({
  description: `${PROVISIONERS.join(', ')}: kept and answered; every compute runs in the same way`,
})
