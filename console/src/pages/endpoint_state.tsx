import { useMutation } from '@tanstack/react-query'
import { call, type Endpoint } from '../api.ts'
import { Action } from '../parts/action.tsx'

/** The word that people know an endpoint's state by. */
export function wordFor({ current_state, pending_state, disabled }: Endpoint): string {
  if (pending_state !== undefined && pending_state !== current_state)
    return pending_state === 'active' ? 'Starting' : 'Suspending'
  if (current_state === 'active') return 'Active'
  return disabled ? 'Stopped' : 'Idle'
}

/** An endpoint's state and size, and what can be done about it now. */
export function EndpointState({ endpoint, onChange }: { readonly endpoint: Endpoint; readonly onChange: () => void }) {
  const params = { project_id: endpoint.project_id, endpoint_id: endpoint.id }
  const change = useMutation({
    mutationFn: (starts: boolean) =>
      starts
        ? call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params })
        : call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params }),
    onSettled: onChange,
  })
  const word = wordFor(endpoint)
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max, current_cu } = endpoint
  const isMoving = word === 'Starting' || word === 'Suspending' || change.isPending
  const moving = isMoving ? 'It is about to change: wait until that is over.' : undefined
  return (
    <span className="endpoint">
      <span className={`mark ${word.toLowerCase()}`}>{word}</span>
      <small>
        {current_cu === undefined || min === max ? sizes(min, max) : `${current_cu} CU of ${sizes(min, max)}`}
      </small>
      {word === 'Active' || word === 'Suspending' ? (
        <Action unavailable={moving} onClick={() => change.mutate(false)}>
          Suspend
        </Action>
      ) : (
        <Action
          unavailable={moving ?? (endpoint.disabled ? 'It is stopped: open the branch to enable it.' : undefined)}
          onClick={() => change.mutate(true)}
        >
          Start
        </Action>
      )}
      {change.error && <small role="alert">{change.error.message}</small>}
    </span>
  )
}

/** The limits of an endpoint's size. */
export const sizes = (min: number, max: number): string => (min === max ? `${min} CU` : `${min} to ${max} CU`)
