import { useQueryClient } from '@tanstack/react-query'
import { keysOf } from '../live.ts'
import { bytes } from '../parts/amounts.ts'
import { Moment } from '../parts/time.tsx'
import type { BranchTabProps } from './branch.tsx'
import { ConnectBranch } from './connect.tsx'
import { EndpointState } from './endpoint_state.tsx'

/** A branch's facts and its compute. */
export function BranchOverview({ branch, endpoint }: BranchTabProps) {
  const queries = useQueryClient()
  const refresh = () => void queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <dl className="facts">
      <dt>Compute</dt>
      <dd>{endpoint ? <EndpointState endpoint={endpoint} onChange={refresh} /> : 'none'}</dd>
      <dt>Size</dt>
      <dd>{branch.logical_size === undefined ? 'not measured yet' : bytes(branch.logical_size)}</dd>
      <dt>Created</dt>
      <dd>
        <Moment at={branch.created_at} />
      </dd>
      <dt>Connection</dt>
      <dd>
        <ConnectBranch branch={branch} endpoint={endpoint} />
      </dd>
    </dl>
  )
}
