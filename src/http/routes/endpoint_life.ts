import { restartEndpoint, startEndpoint, suspendEndpoint } from '../../commands/endpoint_life.ts'
import { QUOTA_ERRORS } from '../../errors.ts'
import { route } from '../route.ts'
import { EndpointAndOperations, endpointChanged, EndpointParams } from './endpoints.ts'

export const startProjectEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/start', {
  summary: 'Start a compute endpoint',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', ...QUOTA_ERRORS],
}).handle(async ({ params }, context) => endpointChanged(context, await startEndpoint(context, params)))

export const suspendProjectEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/suspend', {
  summary: 'Suspend a compute endpoint',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => endpointChanged(context, await suspendEndpoint(context, params)))

export const restartProjectEndpoint = route('POST /projects/:project_id/endpoints/:endpoint_id/restart', {
  summary: 'Restart a compute endpoint; one that sleeps is started',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', ...QUOTA_ERRORS],
}).handle(async ({ params }, context) => endpointChanged(context, await restartEndpoint(context, params)))
