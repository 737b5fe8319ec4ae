import { type Branch, isClosed } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { type Endpoint, findBranchEndpoint, insertEndpoint } from '../catalog/endpoint.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { newEndpointId } from '../ids.ts'
import { requireWithinQuota } from '../operations/quota.ts'
import { queueStart } from '../operations/start_compute.ts'
import type { ChangedEndpoint } from './changed.ts'
import type { CommandContext } from './command.ts'
import { requireNoPgbouncer, requireNoPreload, requireProvisioner } from './endpoint_settings.ts'
import { requireSize, requireSuspendTimeout, SMALLEST } from './endpoint_size.ts'
import { requirePgSettings } from './pg_settings.ts'
import { requireRegion } from './require.ts'

/** The attributes that a request may give an endpoint. */
export interface EndpointAttributes {
  readonly autoscaling_limit_min_cu?: number
  readonly autoscaling_limit_max_cu?: number
  readonly suspend_timeout_seconds?: number
  readonly settings?: Endpoint['settings']
  readonly name?: string
  readonly disabled?: boolean
  readonly pooler_enabled?: boolean
  readonly pooler_mode?: string
  readonly passwordless_access?: boolean
  readonly provisioner?: string
}

export interface NewEndpoint extends EndpointAttributes {
  readonly type?: string
  readonly region_id?: string
}

/**
 * Creates the endpoint of a branch and, unless it is disabled or the data of the branch are still to be masked, queues
 * its first start. Errors: those of sizes and settings, ENDPOINTS_LIMIT_EXCEEDED.
 */
export async function createEndpoint(
  { db, config, account }: CommandContext,
  project: Project,
  branch: Branch,
  asked: NewEndpoint,
  { starts = !isClosed(branch) } = {},
): Promise<ChangedEndpoint> {
  if (asked.type !== undefined && asked.type !== 'read_write') throw new AppError('ENDPOINT_TYPE_NOT_SUPPORTED')
  if (await findBranchEndpoint(db, branch.id)) throw new AppError('ENDPOINTS_LIMIT_EXCEEDED')
  const defaults = project.default_endpoint_settings
  // A project's defaults may be from a paid plan.
  const standard = account.plan === 'free' ? SMALLEST : requireSize(account, defaults, SMALLEST)
  const size = requireSize(account, asked, standard)
  const timeout = asked.suspend_timeout_seconds ?? defaults.suspend_timeout_seconds ?? 0
  requireSuspendTimeout(config, timeout)
  requireRegion(config, asked.region_id)
  const settings = { pg_settings: defaults.pg_settings ?? {}, ...asked.settings }
  const provisioner = asked.provisioner ?? defaults.provisioner
  await requireAttributes(db, { ...asked, settings })
  const inserted = await insertEndpoint(db, {
    id: newEndpointId(),
    account_id: project.account_id,
    project_id: project.id,
    branch_id: branch.id,
    name: asked.name ?? null,
    min_cu: size.min,
    max_cu: size.max,
    suspend_timeout_seconds: timeout,
    settings: { ...settings, ...(provisioner !== undefined && { provisioner }) },
    disabled: asked.disabled ?? false,
    pooler_enabled: asked.pooler_enabled ?? false,
    passwordless_access: asked.passwordless_access ?? false,
  })
  if (inserted.disabled || !starts) return { endpoint: inserted, operations: [] }
  await requireWithinQuota(db, inserted)
  const operation = await queueStart(db, inserted, 'request')
  return { endpoint: { ...inserted, pending_state: 'active' }, operations: [operation] }
}

/**
 * Errors: PG_SETTINGS_NOT_ALLOWED, NOT_ALLOWED (unsupported pooler modes, provisioners, libraries, PgBouncer settings).
 */
export async function requireAttributes(
  db: Db,
  { settings, pooler_mode: mode, provisioner }: Pick<EndpointAttributes, 'settings' | 'pooler_mode' | 'provisioner'>,
): Promise<void> {
  if (mode !== undefined && mode !== 'transaction')
    throw new AppError('NOT_ALLOWED', `pooler_mode is ${mode}; the only one there is is transaction.`)
  requireProvisioner(provisioner)
  requireNoPreload(settings?.preload_libraries)
  requireNoPgbouncer(settings?.pgbouncer_settings)
  await requirePgSettings(db, settings?.pg_settings)
}
