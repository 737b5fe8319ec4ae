import { parseRange } from '../address_range.ts'
import { raiseConfigVersions } from '../catalog/branch.ts'
import { listWorkingEndpoints } from '../catalog/endpoint.ts'
import type { Operation } from '../catalog/operation.ts'
import type { Project, ProjectSettings } from '../catalog/project.ts'
import { forgiveGrowth, listWronglyRefusing } from '../catalog/size_limit.ts'
import { AppError } from '../errors.ts'
import { applyConfigOperation } from '../operations/apply_config.ts'
import { decideAndApply } from '../operations/refuse_writes.ts'
import { requestOperation } from '../operations/request.ts'
import { subjectOf } from '../operations/start_compute.ts'
import type { CommandContext } from './command.ts'
import { requireNoPreload } from './endpoint_settings.ts'

/** The settings that a request may name. */
export interface AskedProjectSettings extends ProjectSettings {
  readonly audit_log_level?: string
}

const NOT_AVAILABLE = ['block_public_connections', 'block_vpc_connections', 'hipaa'] as const

/** Two IPv6 addresses with zones, separated by a dash. */
const MAX_ENTRY_CHARACTERS = 200

/** Per project. Longer lists from before this limit stay as they are. */
const MAX_ALLOWED_IPS = 100

/** Errors: NOT_ALLOWED (an unsupported setting, too many addresses, an invalid address). */
export function requireProjectSettings(settings: AskedProjectSettings = {}): void {
  const asked = NOT_AVAILABLE.find((name) => settings[name])
  if (asked)
    throw new AppError(
      'NOT_ALLOWED',
      `The project setting ${asked} is not available here: leave it out, or give false.`,
    )
  if (settings.audit_log_level !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      'The project setting audit_log_level is not available here, since Neap writes no audit log of statements: ' +
        'leave it out.',
    )
  requireNoPreload(settings.preload_libraries)
  requireAddresses(settings.allowed_ips?.ips)
}

function requireAddresses(ips: readonly string[] = []): void {
  if (ips.length > MAX_ALLOWED_IPS)
    throw new AppError(
      'NOT_ALLOWED',
      `allowed_ips has ${ips.length} entries: ` +
        `give at most ${MAX_ALLOWED_IPS}, and join neighbouring addresses to CIDR ranges such as 10.0.0.0/8.`,
    )
  const wrong = ips.find((each) => each.length > MAX_ENTRY_CHARACTERS || parseRange(each) === undefined)
  if (wrong !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `allowed_ips has ${JSON.stringify(wrong.slice(0, 100))}: ` +
        'give an address, a CIDR range such as 10.0.0.0/8, or two addresses with a dash between, the lower one first.',
    )
}

/**
 * Queues the operations that apply changed settings to running computes; other computes adopt them at their next start.
 */
export async function applyProjectSettings(
  { db }: CommandContext,
  before: Project,
  { account_id, id: project_id, settings }: Project,
): Promise<Operation[]> {
  const operations: Operation[] = []
  if (settings.quota?.['logical_size_bytes'] !== before.settings.quota?.['logical_size_bytes'])
    await forgiveGrowth(db, project_id)
  for (const { id } of await listWronglyRefusing(db, { projectId: project_id })) {
    const operation = await decideAndApply(db, id)
    if (operation) operations.push(operation)
  }
  const { enable_logical_replication: replication = false, enable_egress: egress = false } = settings
  if (replication !== (before.settings.enable_logical_replication ?? false))
    for (const branch_id of await raiseConfigVersions(db, project_id)) {
      const subject = { account_id, project_id, branch_id }
      operations.push(await requestOperation(db, applyConfigOperation, subject, { replication }))
    }
  if (egress !== (before.settings.enable_egress ?? false))
    for (const endpoint of await listWorkingEndpoints(db, project_id)) {
      operations.push(await requestOperation(db, applyConfigOperation, subjectOf(endpoint), { egress }))
    }
  return operations
}
