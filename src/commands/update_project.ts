import type { Operation } from '../catalog/operation.ts'
import { type Project, updateProject } from '../catalog/project.ts'
import type { CommandContext } from './command.ts'
import { requireNoPgbouncer } from './endpoint_settings.ts'
import { requireSize, requireSuspendTimeout, SMALLEST } from './endpoint_size.ts'
import { requirePgSettings } from './pg_settings.ts'
import { applyProjectSettings, type AskedProjectSettings, requireProjectSettings } from './project_settings.ts'
import { lockedProject } from './require.ts'

/** The attributes of a project that a request may change. */
export interface ProjectChanges {
  readonly name?: string
  readonly settings?: AskedProjectSettings
  readonly history_retention_seconds?: number
  readonly default_endpoint_settings?: Project['default_endpoint_settings']
}

/**
 * Changes the given attributes of a project and queues the operations that apply its settings to running computes.
 * Errors: NOT_FOUND, LOCKED, NOT_ALLOWED, and those of endpoints.
 */
export async function changeProject(
  context: CommandContext,
  id: string,
  { name, settings, history_retention_seconds, default_endpoint_settings }: ProjectChanges,
): Promise<{ project: Project; operations: readonly Operation[] }> {
  const before = await lockedProject(context, id)
  requireProjectSettings(settings)
  const defaults = default_endpoint_settings && { ...before.default_endpoint_settings, ...default_endpoint_settings }
  if (defaults) await requireDefaults(context, defaults)
  const project = await updateProject(context.db, before.id, {
    name,
    settings: settings && { ...before.settings, ...settings },
    history_retention_seconds,
    default_endpoint_settings: defaults,
  })
  return { project, operations: await applyProjectSettings(context, before, project) }
}

/** Checks the defaults for endpoints of a project. Errors: REFUSALS of endpoints. */
export async function requireDefaults(
  { db, config, account }: CommandContext,
  defaults: Project['default_endpoint_settings'],
): Promise<void> {
  requireSize(account, defaults, SMALLEST)
  requireSuspendTimeout(config, defaults.suspend_timeout_seconds ?? 0)
  requireNoPgbouncer(defaults.pgbouncer_settings)
  await requirePgSettings(db, defaults.pg_settings)
}
