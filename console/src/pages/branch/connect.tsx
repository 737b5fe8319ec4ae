import { NoCompute } from '../../parts/no_compute.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { ConnectPanel } from '../connect/connect_panel.tsx'

/** The ways to connect to a branch, as a page with an address. */
export function BranchConnect({ branch, endpoint }: BranchTabProps) {
  return endpoint ? <ConnectPanel branch={branch} /> : <NoCompute branch={branch} what="connections" />
}
