import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type Branch, call } from '../api.ts'
import { keysOf } from '../live.ts'
import { bytes } from '../parts/amounts.ts'
import { BackupFacts } from '../parts/backup.tsx'
import { DiskUsageFacts } from '../parts/disk_usage.tsx'
import { Empty } from '../parts/states.tsx'
import { Moment } from '../parts/time.tsx'
import type { BranchTabProps } from './branch.tsx'
import { AddCompute } from './compute/forms.tsx'
import { ComputePanel } from './compute/panel.tsx'
import { ConnectBranch } from './connect.tsx'
import { PasswordlessAccess } from './passwordless_access.tsx'

/** A branch's facts and its compute. */
export function BranchOverview({ branch, endpoint }: BranchTabProps) {
  const queries = useQueryClient()
  const refresh = () => void queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <>
      {endpoint ? (
        <ComputePanel endpoint={endpoint} onChange={refresh} />
      ) : (
        <section className="panel">
          <Empty title="No compute">
            <p>No client can connect to this branch until it has a compute.</p>
            <AddCompute branch={branch} onChange={refresh} />
          </Empty>
        </section>
      )}
      <section className="panel" aria-labelledby="facts">
        <div className="heading">
          <h2 id="facts">Branch</h2>
          <ConnectBranch branch={branch} endpoint={endpoint} />
        </div>
        <dl className="facts">
          {endpoint && (
            <>
              <dt>Passwordless access</dt>
              <dd>
                <PasswordlessAccess endpoint={endpoint} onChange={refresh} />
              </dd>
            </>
          )}
          <dt>Size</dt>
          <dd>{branch.logical_size === undefined ? 'not measured yet' : bytes(branch.logical_size)}</dd>
          {branch.anonymization_state && <Anonymization branch={branch} />}
          <DiskUsageFacts branch={branch} />
          <BackupFacts branch={branch} />
          <dt>Created</dt>
          <dd>
            <Moment at={branch.created_at} />
          </dd>
        </dl>
      </section>
    </>
  )
}

/** How far an anonymized branch is, or why its masking failed. */
function Anonymization({ branch: { project_id, id, anonymization_state } }: { readonly branch: Branch }) {
  const status = useQuery({
    queryKey: [...keysOf(project_id).state, 'anonymized', id, anonymization_state],
    queryFn: () =>
      call('GET /projects/:project_id/branches/:branch_id/anonymized_status', {
        params: { project_id, branch_id: id },
      }),
  }).data
  const state = status?.state ?? anonymization_state ?? ''
  return (
    <>
      <dt>Anonymization</dt>
      <dd>
        <span className={state.endsWith('error') ? 'mark failed' : 'mark'}>{state.replace('_', ' ')}</span>{' '}
        {status?.status_message}
      </dd>
    </>
  )
}
