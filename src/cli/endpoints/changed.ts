import type { ApiResponse, ApiClient } from '../../client.ts'
import { card } from '../table.ts'
import type { VerbOutcome } from '../verb.ts'
import { DETAILS } from './columns.ts'

type Changed = ApiResponse<'PATCH /projects/:project_id/endpoints/:endpoint_id'>

/** Shows a changed endpoint, and its state once its operations have ended. */
export function changed(call: ApiClient, answer: Changed): VerbOutcome<Changed> {
  const params = { project_id: answer.endpoint.project_id, endpoint_id: answer.endpoint.id }
  return {
    answer,
    text: (shown) => card(shown, DETAILS),
    refresh: () => call('GET /projects/:project_id/endpoints/:endpoint_id', { params }),
  }
}
