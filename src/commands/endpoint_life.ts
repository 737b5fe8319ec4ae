import type { Endpoint } from '../catalog/endpoint.ts'
import { AppError } from '../errors.ts'
import { requireWithinQuota } from '../operations/quota.ts'
import { queueStart } from '../operations/start_compute.ts'
import { queueSuspend } from '../operations/suspend_compute.ts'
import type { ChangedEndpoint } from './changed.ts'
import type { CommandContext } from './command.ts'
import { type EndpointId, lockedEndpoint, requireBranch, requireOpen } from './require.ts'

/** Starts the compute of an endpoint. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED (disabled), a quota. */
export async function startEndpoint(context: CommandContext, id: EndpointId): Promise<ChangedEndpoint> {
  const endpoint = await lockedEndpoint(context, id)
  await requireStartable(context, endpoint)
  if (endpoint.current_state === 'active' && endpoint.pending_state === null) return { endpoint, operations: [] }
  await requireWithinQuota(context.db, endpoint)
  const operation = await queueStart(context.db, endpoint, 'request')
  return { endpoint: { ...endpoint, pending_state: 'active' }, operations: [operation] }
}

/** Suspends the compute of an endpoint. Errors: NOT_FOUND, LOCKED. */
export async function suspendEndpoint(context: CommandContext, id: EndpointId): Promise<ChangedEndpoint> {
  const endpoint = await lockedEndpoint(context, id, { relieves: true })
  if (isIdle(endpoint)) return { endpoint, operations: [] }
  const operation = await queueSuspend(context.db, endpoint, 'request')
  return { endpoint: { ...endpoint, pending_state: 'idle' }, operations: [operation] }
}

/** Restarts the compute of an endpoint; starts an idle one. Errors: as `startEndpoint`. */
export async function restartEndpoint(context: CommandContext, id: EndpointId): Promise<ChangedEndpoint> {
  const endpoint = await lockedEndpoint(context, id)
  await requireStartable(context, endpoint)
  await requireWithinQuota(context.db, endpoint)
  const operations = isIdle(endpoint) ? [] : [await queueSuspend(context.db, endpoint, 'request')]
  operations.push(await queueStart(context.db, endpoint, 'request'))
  return { endpoint: { ...endpoint, pending_state: 'active' }, operations }
}

const isIdle = ({ current_state, pending_state }: Endpoint): boolean =>
  current_state === 'idle' && pending_state === null

async function requireStartable(context: CommandContext, { disabled, project_id, branch_id }: Endpoint): Promise<void> {
  if (disabled)
    throw new AppError('NOT_ALLOWED', 'The endpoint is disabled. Enable it first: PATCH it with disabled: false.')
  await requireOpen(context, await requireBranch(context, project_id, branch_id))
}
