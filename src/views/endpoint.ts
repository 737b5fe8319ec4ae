import { type Static, Type } from 'typebox'
import { settingsWithDefaults, type ShownEndpoint } from '../catalog/endpoint.ts'
import type { Config } from '../config.ts'
import { proxyHost } from '../public_address.ts'
import { Provisioner, ShownEndpointSettings } from './endpoint_settings.ts'

export const EndpointState = Type.Union([Type.Literal('init'), Type.Literal('active'), Type.Literal('idle')])

export const Endpoint = Type.Object(
  {
    id: Type.String(),
    host: Type.String(),
    proxy_host: Type.String(),
    project_id: Type.String(),
    branch_id: Type.String(),
    name: Type.Optional(Type.String()),
    region_id: Type.String(),
    type: Type.Literal('read_write'),
    autoscaling_limit_min_cu: Type.Number(),
    autoscaling_limit_max_cu: Type.Number(),
    current_cu: Type.Optional(
      Type.Number({ description: 'The size that its compute has now, between the limits; absent while none runs' }),
    ),
    wanted_cu: Type.Optional(
      Type.Number({ description: 'The size that it wants, as long as its host has less room; absent while it has it' }),
    ),
    limit_error: Type.Optional(
      Type.String({ description: 'Why the compute is not held to its size; absent while it is, or none runs' }),
    ),
    writes_refused: Type.Optional(
      Type.Union([Type.Literal('branch_size'), Type.Literal('host_disk')], {
        description:
          'Neap only. Why its compute refuses writes outside of READ WRITE transactions: ' +
          'its branch is larger than quota.logical_size_bytes, or the disk of its host is almost full',
      }),
    ),
    suspend_timeout_seconds: Type.Integer(),
    current_state: EndpointState,
    pending_state: Type.Optional(EndpointState),
    settings: ShownEndpointSettings,
    pooler_enabled: Type.Boolean(),
    pooler_mode: Type.Literal('transaction'),
    disabled: Type.Boolean(),
    passwordless_access: Type.Boolean(),
    provisioner: Provisioner,
    creation_source: Type.String(),
    last_active: Type.Optional(Type.String({ format: 'date-time' })),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
    suspended_at: Type.Optional(Type.String({ format: 'date-time' })),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Endpoint' },
)

/**
 * An endpoint as clients see it. `pending_state` is the state that it moves to; after an update (`settled`) also the
 * state that it keeps; in lists and after a deletion (`gone`) it is absent.
 */
export function endpointView(
  row: ShownEndpoint,
  config: Config,
  { settled = false, gone = false }: { readonly settled?: boolean; readonly gone?: boolean } = {},
): Static<typeof Endpoint> {
  const { settings, provisioner } = settingsWithDefaults(row)
  const pending = gone ? undefined : (row.pending_state ?? (settled ? row.current_state : undefined))
  return {
    id: row.id,
    host: `${row.id}.${proxyHost(config)}`,
    proxy_host: proxyHost(config),
    project_id: row.project_id,
    branch_id: row.branch_id,
    ...(row.name && { name: row.name }),
    region_id: config.region,
    type: 'read_write',
    autoscaling_limit_min_cu: row.min_cu,
    autoscaling_limit_max_cu: row.max_cu,
    ...(row.current_state === 'active' && { current_cu: row.cu }),
    ...(row.wanted_cu !== null && { wanted_cu: row.wanted_cu }),
    ...(row.limit_error !== null && { limit_error: row.limit_error }),
    ...(row.writes_refused !== null && { writes_refused: row.writes_refused }),
    suspend_timeout_seconds: row.suspend_timeout_seconds,
    current_state: row.current_state,
    ...(pending && { pending_state: pending }),
    settings,
    pooler_enabled: row.pooler_enabled,
    pooler_mode: 'transaction',
    disabled: row.disabled,
    passwordless_access: row.passwordless_access,
    provisioner,
    creation_source: row.creation_source,
    ...(row.last_active && { last_active: row.last_active }),
    ...(row.started_at && { started_at: row.started_at }),
    ...(row.suspended_at && { suspended_at: row.suspended_at }),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
