import { Type } from 'typebox'
import { changeEndpoint } from '../../commands/update_endpoint.ts'
import { route } from '../route.ts'
import { EndpointAndOperations, EndpointAttributes, endpointChanged, EndpointParams, REFUSALS } from './endpoints.ts'

const Asked = Type.Object({
  branch_id: Type.Optional(Type.String({ description: 'Moves the endpoint to another branch, which must have none' })),
  ...EndpointAttributes,
})

export const updateProjectEndpoint = route('PATCH /projects/:project_id/endpoints/:endpoint_id', {
  summary: 'Update a compute endpoint; what is not given stays',
  tag: 'Endpoint',
  params: EndpointParams,
  body: Type.Object({ endpoint: Asked }),
  returns: EndpointAndOperations,
  errors: ['NOT_FOUND', 'ENDPOINTS_LIMIT_EXCEEDED', 'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED', ...REFUSALS],
}).handle(async ({ params, body }, context) =>
  endpointChanged(context, await changeEndpoint(context, params, body.endpoint), { settled: true }),
)
