import { Empty } from '../../parts/states.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { ConnectPanel } from '../connect/connect_panel.tsx'

/** The ways to connect to a branch, as a page with an address. */
export function BranchConnect({ branch, endpoint }: BranchTabProps) {
  if (endpoint) return <ConnectPanel branch={branch} />
  return (
    <Empty title="Nothing to connect to">
      <p>The branch has no compute endpoint. Create one on the overview first.</p>
    </Empty>
  )
}
