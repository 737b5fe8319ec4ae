import type { Branch } from '../catalog/branch.ts'
import type { Endpoint } from '../catalog/endpoint.ts'
import type { Notice } from '../catalog/notice.ts'
import type { Operation } from '../catalog/operation.ts'
import type { Config } from '../config.ts'
import { branchView } from './branch.ts'
import { endpointView } from './endpoint.ts'
import { noticeView } from './notice.ts'
import { operationView } from './operation.ts'

/** The data of a webhook's event: the API's JSON of the row at the time of the event. The same in each attempt. */
export function webhookEventView(
  config: Config,
  { event, occurred_at }: { readonly event: string; readonly occurred_at: string },
  row: object,
): object {
  switch (event.split('.')[0]) {
    case 'operation':
      return operationView(row as Operation, occurred_at)
    case 'endpoint': {
      const endpoint = row as Endpoint
      // The trigger took the row when the state changed, just before the operation that changed it ended.
      const isThere = endpoint.pending_state === endpoint.current_state
      const settled = isThere ? { ...endpoint, pending_state: null } : endpoint
      return endpointView(settled, config, { gone: event === 'endpoint.deleted' })
    }
    case 'branch':
      return branchView(row as Branch)
    case 'notice':
      return noticeView(row as Notice)
    default:
      return row
  }
}
