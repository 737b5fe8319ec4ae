import type { Endpoint } from '../../catalog/endpoint.ts'
import { AppError } from '../../errors.ts'
import { queueStart } from '../../operations/start_compute.ts'
import { queueSuspend } from '../../operations/suspend_compute.ts'
import { route } from '../route.ts'
import { EndpointAndOperations, EndpointId, lockedEndpoint, presentEndpoint } from './endpoints.ts'
import { presentOperation } from './operations.ts'

export const startEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/start', {
  summary: 'Start a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const endpoint = await lockedEndpoint(context, params)
  requireEnabled(endpoint)
  if (endpoint.current_state === 'active' && endpoint.pending_state === null)
    return { endpoint: presentEndpoint(endpoint, context.config), operations: [] }
  const operation = await queueStart(context.db, endpoint, 'request')
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state: 'active' }, context.config),
    operations: [presentOperation(operation)],
  }
})

export const suspendEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/suspend', {
  summary: 'Suspend a compute endpoint',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  const endpoint = await lockedEndpoint(context, params)
  if (endpoint.current_state === 'idle' && endpoint.pending_state === null)
    return { endpoint: presentEndpoint(endpoint, context.config), operations: [] }
  const operation = await queueSuspend(context.db, endpoint, 'request')
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state: 'idle' }, context.config),
    operations: [presentOperation(operation)],
  }
})

export const restartEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/restart', {
  summary: 'Restart a compute endpoint; one that sleeps is started',
  tag: 'Endpoint',
  params: EndpointId,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const endpoint = await lockedEndpoint(context, params)
  requireEnabled(endpoint)
  const sleeps = endpoint.current_state === 'idle' && endpoint.pending_state === null
  const operations = sleeps ? [] : [await queueSuspend(context.db, endpoint, 'request')]
  operations.push(await queueStart(context.db, endpoint, 'request'))
  return {
    endpoint: presentEndpoint({ ...endpoint, pending_state: 'active' }, context.config),
    operations: operations.map((each) => presentOperation(each)),
  }
})

function requireEnabled({ disabled }: Endpoint): void {
  if (disabled)
    throw new AppError('NOT_ALLOWED', 'The endpoint is disabled. Enable it first: PATCH it with disabled: false.')
}
