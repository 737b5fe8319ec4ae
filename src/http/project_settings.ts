import { isIP } from 'node:net'
import { type Static, Type } from 'typebox'
import { raiseConfigVersions } from '../catalog/branch.ts'
import { listWorkingEndpoints } from '../catalog/endpoint.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { applyConfigOperation } from '../operations/apply_config.ts'
import { requestOperation } from '../operations/request.ts'
import { subjectOf } from '../operations/start_compute.ts'
import { PreloadLibraries, requireNoPreload } from './endpoint_settings.ts'
import type { RequestContext } from './route.ts'
import { type Operation, presentOperation } from './routes/operations.ts'

const Quota = Type.Optional(
  Type.Integer({ minimum: 0, description: 'Neap enforces no quotas of projects: 0, no limit, or refused' }),
)
const TimeOfDay = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'HH:MM, in UTC' })
const Replication = Type.Boolean({
  description: 'Whether roles may replicate: read changes from slots, and be subscribed to',
})
const NotAvailable = Type.Optional(Type.Boolean({ description: 'Not available: false, or refused' }))

const others = {
  enable_egress: Type.Optional(
    Type.Boolean({
      description:
        'Neap only. Whether computes may reach public addresses, and the networks of NEAP_EGRESS_ALLOW. A change restarts those that run',
    }),
  ),
  quota: Type.Optional(
    Type.Object({
      active_time_seconds: Quota,
      compute_time_seconds: Quota,
      written_data_bytes: Quota,
      data_transfer_bytes: Quota,
      logical_size_bytes: Quota,
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

/** The settings of a project that Neap knows. What it cannot do is declared to be refused when it is asked for. */
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

/** The same as they are answered: public clients read the first two without a look at whether they are there. */
export const ShownProjectSettings = Type.Object({
  allowed_ips: Type.Object({ ips: Type.Array(Type.String()), protected_branches_only: Type.Boolean() }),
  enable_logical_replication: Replication,
  ...others,
})

/** The settings of a project with what it has where nothing was asked for. */
export function shownProjectSettings({ settings }: Project): Static<typeof ShownProjectSettings> {
  const allowed_ips = { ips: [], protected_branches_only: false, ...settings.allowed_ips }
  return { enable_logical_replication: false, ...settings, allowed_ips }
}

const NOT_AVAILABLE = ['block_public_connections', 'block_vpc_connections', 'hipaa'] as const

/** Two addresses of IPv6 with zones, and a dash between. */
const MAX_ENTRY_CHARACTERS = 200

/** Of a project; lists from before that limit stay as they are. */
const MAX_ALLOWED_IPS = 100

/** Errors: NOT_ALLOWED for a setting that Neap cannot do, for too many addresses, and for an entry that is no address. */
export function requireProjectSettings(settings: Static<typeof ProjectSettings> = {}): void {
  const asked = NOT_AVAILABLE.find((name) => settings[name])
  if (asked)
    throw new AppError(
      'NOT_ALLOWED',
      `The project setting ${asked} is not available here: leave it out, or give false.`,
    )
  if (settings.audit_log_level !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      'The project setting audit_log_level is not available here, since Neap writes no audit log of statements: leave it out.',
    )
  const [limited] = Object.entries(settings.quota ?? {}).filter(([, limit]) => limit > 0)
  if (limited)
    throw new AppError(
      'NOT_ALLOWED',
      `quota.${limited[0]} is ${limited[1]}, but Neap enforces no quotas of projects: leave it out, or give 0, which is no limit.`,
    )
  requireNoPreload(settings.preload_libraries)
  requireAddresses(settings.allowed_ips?.ips)
}

function requireAddresses(ips: readonly string[] = []): void {
  if (ips.length > MAX_ALLOWED_IPS)
    throw new AppError(
      'NOT_ALLOWED',
      `allowed_ips has ${ips.length} entries: give at most ${MAX_ALLOWED_IPS}, and join neighbouring addresses to CIDR ranges such as 10.0.0.0/8.`,
    )
  const wrong = ips.find((each) => !isAddressRange(each))
  if (wrong !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `allowed_ips has ${JSON.stringify(wrong.slice(0, 100))}: give an address, a CIDR range such as 10.0.0.0/8, or two addresses with a dash between.`,
    )
}

function isAddressRange(text: string): boolean {
  const [, first = '', prefix, last] = /^([^/-]+)(?:\/(\d{1,3})|-([^/-]+))?$/.exec(text) ?? []
  const version = isIP(first)
  if (version === 0 || text.length > MAX_ENTRY_CHARACTERS) return false
  return (last === undefined || isIP(last) === version) && Number(prefix ?? 0) <= (version === 4 ? 32 : 128)
}

/**
 * Queues what brings changed settings to the computes that run; the others come to them with their next start.
 * @returns the operations, as clients see them
 */
export async function applyProjectSettings(
  { db }: RequestContext,
  before: Project,
  { account_id, id: project_id, settings }: Project,
): Promise<Static<typeof Operation>[]> {
  const operations: Static<typeof Operation>[] = []
  const { enable_logical_replication: replication = false, enable_egress: egress = false } = settings
  if (replication !== (before.settings.enable_logical_replication ?? false))
    for (const branch_id of await raiseConfigVersions(db, project_id)) {
      const subject = { account_id, project_id, branch_id }
      operations.push(presentOperation(await requestOperation(db, applyConfigOperation, subject, { replication })))
    }
  if (egress !== (before.settings.enable_egress ?? false))
    for (const endpoint of await listWorkingEndpoints(db, project_id)) {
      const restart = await requestOperation(db, applyConfigOperation, subjectOf(endpoint), { egress })
      operations.push(presentOperation(restart))
    }
  return operations
}
