import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../catalog/catalog.ts'
import {
  type Endpoint,
  type EndpointChanges,
  findBranchEndpoint,
  setPause,
  settingsWithDefaults,
  updateEndpoint,
} from '../catalog/endpoint.ts'
import { cancelUnbegun, type Operation } from '../catalog/operation.ts'
import { scale } from '../catalog/scaling.ts'
import { AppError } from '../errors.ts'
import { applyConfigOperation } from '../operations/apply_config.ts'
import { requestOperation } from '../operations/request.ts'
import { subjectOf } from '../operations/start_compute.ts'
import { queueSuspend, suspendCompute } from '../operations/suspend_compute.ts'
import type { ChangedEndpoint } from './changed.ts'
import type { CommandContext } from './command.ts'
import { type EndpointAttributes, requireAttributes } from './create_endpoint.ts'
import { requireNewSize, requireSuspendTimeout } from './endpoint_size.ts'
import { type EndpointId, lockedEndpoint, requireBranch } from './require.ts'

/** The attributes of an endpoint that a request may change. A changed size resizes it, a changed branch moves it. */
export interface AskedChanges extends EndpointAttributes {
  readonly branch_id?: string
}

/**
 * Changes the given attributes of an endpoint and queues the operations that apply them to its compute.
 * Errors: NOT_FOUND (endpoint, branch), LOCKED, ENDPOINTS_LIMIT_EXCEEDED, ENDPOINT_MODE_CHANGE_NOT_SUPPORTED, and those
 * of sizes and settings.
 */
export async function changeEndpoint(
  context: CommandContext,
  id: EndpointId,
  asked: AskedChanges,
): Promise<ChangedEndpoint> {
  const { db } = context
  const before = await lockedEndpoint(context, id)
  const changes = await requireChanges(context, before, asked)
  if (Object.keys(changes).length === 0) return { endpoint: before, operations: [] }
  const endpoint = await withinLimits(db, await updateEndpoint(db, before.id, changes))
  const operations = await queueEndpointChanges(db, before, endpoint, changes)
  const suspends = operations.some(({ action }) => action === 'suspend_compute')
  return { endpoint: suspends ? { ...endpoint, pending_state: 'idle' } : endpoint, operations }
}

/** Brings the size of a running compute within new limits, as far as its host has room. */
async function withinLimits(db: Db, endpoint: Endpoint): Promise<Endpoint> {
  const { id, compute_id, cu: from_cu, min_cu, max_cu } = endpoint
  const wanted_cu = Math.min(Math.max(from_cu, min_cu), max_cu)
  if (compute_id === null || (wanted_cu === from_cu && endpoint.wanted_cu === null)) return endpoint
  const cu = await scale(db, { endpoint_id: id, compute_id, from_cu, wanted_cu, reason: 'request', figures: null })
  return cu === undefined ? endpoint : { ...endpoint, cu, wanted_cu: cu < wanted_cu ? wanted_cu : null }
}

/**
 * The requested attributes that differ from the current ones. Errors: REFUSALS, NOT_FOUND (the branch),
 * ENDPOINTS_LIMIT_EXCEEDED.
 */
async function requireChanges(context: CommandContext, now: Endpoint, asked: AskedChanges): Promise<EndpointChanges> {
  const { db, config, account } = context
  const size = requireNewSize(account, asked, { min: now.min_cu, max: now.max_cu })
  if (asked.suspend_timeout_seconds !== undefined) requireSuspendTimeout(config, asked.suspend_timeout_seconds)
  await requireAttributes(db, asked)
  if (asked.branch_id !== undefined && asked.branch_id !== now.branch_id) {
    const { id } = await requireBranch(context, now.project_id, asked.branch_id)
    if (await findBranchEndpoint(db, id))
      throw new AppError('ENDPOINTS_LIMIT_EXCEEDED', `read_write endpoint already exists: the branch ${id} has one.`)
  }
  const { provisioner, settings } = settingsWithDefaults(now)
  const before = { ...now, settings: { ...settings, provisioner } }
  const wanted: EndpointChanges = {
    min_cu: size.min,
    max_cu: size.max,
    ...(asked.branch_id !== undefined && { branch_id: asked.branch_id }),
    ...(asked.suspend_timeout_seconds !== undefined && { suspend_timeout_seconds: asked.suspend_timeout_seconds }),
    settings: { ...before.settings, ...asked.settings, ...(asked.provisioner && { provisioner: asked.provisioner }) },
    ...(asked.disabled !== undefined && { disabled: asked.disabled }),
    ...(asked.pooler_enabled !== undefined && { pooler_enabled: asked.pooler_enabled }),
    ...(asked.passwordless_access !== undefined && { passwordless_access: asked.passwordless_access }),
    ...(asked.name !== undefined && { name: asked.name }),
  }
  const changed = Object.entries(wanted).filter(
    ([field, value]) => !isDeepStrictEqual(value, before[field as keyof EndpointChanges]),
  )
  return Object.fromEntries(changed)
}

/** Queues an apply_config for every change; a move or a disable also suspends the compute. */
async function queueEndpointChanges(
  db: Db,
  before: Endpoint,
  endpoint: Endpoint,
  changes: EndpointChanges,
): Promise<Operation[]> {
  if (changes.branch_id !== undefined) return queueMove(db, before, endpoint)
  const resized = changes.min_cu !== undefined || changes.max_cu !== undefined
  const settings = changes.settings && changedSettings(before, endpoint)
  const stops = changes.disabled === true && (before.current_state === 'active' || before.pending_state === 'active')
  if (stops) await cancelUnbegun(db, before.project_id, { endpointId: before.id }, 'the endpoint was disabled')
  const input = settings ?? (resized ? [] : undefined)
  const applied = await requestOperation(
    db,
    applyConfigOperation,
    subjectOf(endpoint),
    input ? { settings: input } : {},
  )
  return stops ? [applied, await queueSuspend(db, endpoint, 'request')] : [applied]
}

/**
 * Moves an endpoint to another branch; its host name stays. New connections are paused until the compute of the old
 * branch has stopped; then they wake the endpoint on the new one.
 */
async function queueMove(db: Db, before: Endpoint, endpoint: Endpoint): Promise<Operation[]> {
  await cancelUnbegun(db, before.project_id, { endpointId: before.id }, 'the endpoint was moved to another branch')
  const applied = await requestOperation(db, applyConfigOperation, subjectOf(endpoint), { moved: true })
  const suspended = await requestOperation(db, suspendCompute, subjectOf(before), {
    reason: 'move',
    to: endpoint.branch_id,
  })
  if (before.current_state === 'active') await setPause(db, endpoint.id, suspended.id)
  return [applied, suspended]
}

/** The names of settings whose values differ, or that only one of the two has. */
function changedSettings(before: Endpoint, after: Endpoint): string[] {
  const [was, is] = [before.settings.pg_settings ?? {}, after.settings.pg_settings ?? {}]
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => was[name] !== is[name])
}
