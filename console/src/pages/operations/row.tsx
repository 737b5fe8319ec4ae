import { useMutation } from '@tanstack/react-query'
import { Link } from 'wouter'
import { call, type Operation } from '../../api.ts'
import { Action } from '../../parts/action.tsx'
import { duration } from '../../parts/amounts.ts'
import { Moment } from '../../parts/time.tsx'
import { Steps } from './steps.tsx'
import { ACTIONS, reasonWords, whyNotCancelled } from './words.ts'

interface RowProps {
  readonly operation: Operation
  /** Its branch's name, where it is known. */
  readonly branchName: string | undefined
  readonly isOpen: boolean
  readonly toggle: () => void
}

/** An operation as the cells of a row, and its course where that is opened. */
export function OperationRow({ operation, branchName, isOpen, toggle }: RowProps) {
  const { id, action, status, project_id, branch_id, created_at, failures_count, reason } = operation
  return (
    <>
      <div role="cell" className="what">
        <button type="button" className="opens" aria-expanded={isOpen} onClick={toggle}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {ACTIONS[action] ?? action}
        </button>
        <code>{action}</code>
      </div>
      <div role="cell">
        <span className={`mark ${status}`}>{status}</span>
        {failures_count > 0 && (
          <small>{failures_count === 1 ? '1 failed attempt' : `${failures_count} failed attempts`}</small>
        )}
      </div>
      <div role="cell">
        {branch_id !== undefined && (
          <Link href={`/projects/${project_id}/branches/${branch_id}`}>{branchName ?? branch_id}</Link>
        )}
        {reason !== undefined && <small>{reasonWords(reason)}</small>}
      </div>
      <div role="cell">
        <Moment at={created_at} />
      </div>
      <div role="cell">
        <Took operation={operation} />
      </div>
      {isOpen && (
        <div role="cell" className="opened" key={id}>
          <Steps operation={operation} />
        </div>
      )}
    </>
  )
}

/** How long it took, or the way to cancel it. */
function Took({ operation }: { readonly operation: Operation }) {
  const { project_id, id, status, total_duration_ms } = operation
  const cancel = useMutation({
    mutationFn: () =>
      call('POST /projects/:project_id/operations/:operation_id/cancel', { params: { project_id, operation_id: id } }),
  })
  if (status === 'finished' || status === 'failed') return duration(total_duration_ms)
  const sending = cancel.isPending ? 'The request is under way.' : undefined
  return (
    <>
      <Action unavailable={sending ?? whyNotCancelled(operation)} onClick={() => cancel.mutate()}>
        Cancel
      </Action>
      {cancel.error && <small role="alert">{cancel.error.message}</small>}
    </>
  )
}
