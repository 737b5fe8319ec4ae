import type { ApiClient } from '../../client.ts'
import type { ApiBranch } from '../resolve.ts'
import { card } from '../table.ts'
import type { VerbOutcome } from '../verb.ts'
import type { ApiOperation } from '../wait.ts'
import { DETAILS } from './columns.ts'

interface Changed {
  readonly branch: ApiBranch
  readonly operations: readonly ApiOperation[]
}

/** Shows a changed branch, and its state once its operations have ended. */
export function changed<A extends Changed>(call: ApiClient, answer: A): VerbOutcome<A> {
  const { project_id, id } = answer.branch
  return {
    answer,
    text: (shown) => card(shown, DETAILS),
    refresh: async () => {
      const params = { project_id, branch_id: id }
      const { branch } = await call('GET /projects/:project_id/branches/:branch_id', { params })
      return { branch: { ...answer.branch, ...branch } } as Partial<A>
    },
  }
}
