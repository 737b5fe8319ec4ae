import { useQuery } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { call, type Operation } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { duration } from '../../parts/amounts.ts'
import { Copied } from '../../parts/copied.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import { Moment } from '../../parts/time.tsx'
import { ACTIONS, reasonWords, stepWords } from './words.ts'

type Course = ApiResponse<'GET /projects/:project_id/operations/:operation_id/steps'>
type Step = Course['steps'][number]

/** The course of an operation: its steps, what it waits for, why it failed, and when it is tried again. */
export function Steps({ operation }: { readonly operation: Operation }) {
  const { project_id, id, updated_at, error, wait_reason, retry_at, failures_count, reason } = operation
  const read = useQuery({
    // A change of the operation is a change of its steps.
    queryKey: [...keysOf(project_id).state, 'steps', id, updated_at],
    queryFn: () =>
      call('GET /projects/:project_id/operations/:operation_id/steps', {
        params: { project_id, operation_id: id },
      }),
  })
  if (read.error) return <Failure error={read.error} retry={() => void read.refetch()} />
  if (!read.data) return <Loading what="Reading the steps" />
  const { steps, waits_behind, not_cancellable_because, request_id } = read.data
  return (
    <div className="course">
      <ol className="steps" aria-label="Steps">
        {steps.map((step, index) => (
          <StepLine key={`${index} ${step.name}`} step={step} />
        ))}
      </ol>
      {waits_behind.length > 0 && (
        <p>
          It waits until these have ended: {waits_behind.map(({ action }) => ACTIONS[action] ?? action).join(', ')}.
        </p>
      )}
      {wait_reason !== undefined && <p>It waits: {wait_reason}.</p>}
      {error !== undefined && <p className="failure">{error}</p>}
      {failures_count > 0 && operation.status === 'running' && retry_at !== undefined && (
        <p>
          {failures_count === 1 ? 'One attempt' : `${failures_count} attempts`} failed; the next one begins{' '}
          <Moment at={retry_at} />.
        </p>
      )}
      <dl className="facts">
        {reason !== undefined && (
          <>
            <dt>Why</dt>
            <dd>{reasonWords(reason)}</dd>
          </>
        )}
        {operation.status !== 'finished' && operation.status !== 'failed' && (
          <>
            <dt>Cancel</dt>
            <dd>{not_cancellable_because ?? 'It can be cancelled until it begins.'}</dd>
          </>
        )}
        <dt>Operation</dt>
        <dd>
          <Copied text={id} what="the operation's id" />
        </dd>
        {request_id !== undefined && (
          <>
            <dt>Request</dt>
            <dd>
              <Copied text={request_id} what="the id of the request" />
            </dd>
          </>
        )}
      </dl>
    </div>
  )
}

const SIGNS: Record<Step['status'], readonly [sign: string, words: string]> = {
  done: ['✓', 'done'],
  failed: ['✗', 'failed'],
  current: ['▸', 'under way'],
  to_come: ['○', 'to come'],
}

function StepLine({ step }: { readonly step: Step }) {
  const { name, status, began_at, ended_at, error } = step
  const [sign, words] = SIGNS[status]
  const took = began_at && ended_at ? duration(Math.max(0, Date.parse(ended_at) - Date.parse(began_at))) : undefined
  return (
    <li className={status}>
      <span aria-hidden="true">{sign}</span>
      <span className="hidden">{words}: </span>
      <span>
        {stepWords(name)} {took !== undefined && <small>{took}</small>}
        {status === 'current' && began_at !== undefined && (
          <small>
            since <Moment at={began_at} />
          </small>
        )}
        {error !== undefined && <small className="failure">{error}</small>}
      </span>
    </li>
  )
}
