import { type Static, Type } from 'typebox'
import type { Project } from '../catalog/project.ts'
import { PreloadLibraries } from './endpoint_settings.ts'

const Quota = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'In a calendar month (UTC); 0: no limit. Once it is used up, computes are suspended and do not start',
  }),
)

/** For how long the moments of a branch stay within reach. */
export const HistoryRetention = Type.Integer({ minimum: 0, maximum: 3_024_000, description: 'At most 35 days' })

const TimeOfDay = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'HH:MM, in UTC' })

const Replication = Type.Boolean({
  description:
    'Whether roles may replicate: read changes from slots, and be subscribed to. ' +
    'A slot keeps up to 10 GB of changes for its reader, and is lost beyond',
})

const NotAvailable = Type.Optional(Type.Boolean({ description: 'Not available: false, or refused' }))

const others = {
  enable_egress: Type.Optional(
    Type.Boolean({
      description:
        'Neap only. Whether computes may reach public addresses, and the networks of NEAP_EGRESS_ALLOW. ' +
        'A change restarts those that run',
    }),
  ),
  branch_ttl_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_592_000,
      description:
        'Neap only. New branches that give no expires_at expire after so long, unless they are protected; ' +
        '0: they do not',
    }),
  ),
  quota: Type.Optional(
    Type.Object({
      active_time_seconds: Quota,
      compute_time_seconds: Quota,
      written_data_bytes: Quota,
      data_transfer_bytes: Quota,
      logical_size_bytes: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description:
            'The size of each branch, without WAL; 0: no limit. Computes of larger branches refuse writes; ' +
            'one whose branch grows on to twice that is suspended and does not start',
        }),
      ),
    }),
  ),
  maintenance_window: Type.Optional(
    Type.Object(
      {
        weekdays: Type.Array(Type.Integer({ minimum: 1, maximum: 7 })),
        start_time: TimeOfDay,
        end_time: TimeOfDay,
      },
      { description: 'Kept and answered: Neap interrupts no compute for maintenance, at this time or another' },
    ),
  ),
  preload_libraries: Type.Optional(PreloadLibraries),
  block_public_connections: NotAvailable,
  block_vpc_connections: NotAvailable,
  hipaa: NotAvailable,
}

/** The settings of a project in requests. Unsupported ones are declared, so that requests for them are rejected. */
export const ProjectSettings = Type.Object({
  allowed_ips: Type.Optional(
    Type.Object({
      ips: Type.Optional(Type.Array(Type.String())),
      protected_branches_only: Type.Optional(Type.Boolean()),
    }),
  ),
  enable_logical_replication: Type.Optional(Replication),
  audit_log_level: Type.Optional(Type.String({ description: 'Refused: Neap writes no audit log of statements' })),
  ...others,
})

/** The settings of a project in responses: public clients read the first two without checking that they are present. */
export const ShownProjectSettings = Type.Object({
  allowed_ips: Type.Object({ ips: Type.Array(Type.String()), protected_branches_only: Type.Boolean() }),
  enable_logical_replication: Replication,
  ...others,
})

/** The settings of a project, with defaults. */
export function shownProjectSettings({ settings }: Project): Static<typeof ShownProjectSettings> {
  const allowed_ips = { ips: [], protected_branches_only: false, ...settings.allowed_ips }
  return { enable_logical_replication: false, ...settings, allowed_ips }
}
