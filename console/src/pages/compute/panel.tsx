import { useMutation, useQuery } from '@tanstack/react-query'
import { call, type Endpoint } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Action } from '../../parts/action.tsx'
import { Copied } from '../../parts/copied.tsx'
import { Moment } from '../../parts/time.tsx'
import { sizes, wordFor } from '../endpoint_state.tsx'
import { unavailableNow } from './availability.ts'
import { Awake } from './awake.tsx'
import { Enable, Move, Resize, SuspendTimeout, timeoutWords } from './forms.tsx'
import { type Scaling, sizeWords } from './size_words.ts'
import './compute.css'

interface PanelProps {
  readonly endpoint: Endpoint
  readonly onChange: () => void
}

const VERBS = {
  start: 'POST /projects/:project_id/endpoints/:endpoint_id/start',
  suspend: 'POST /projects/:project_id/endpoints/:endpoint_id/suspend',
  restart: 'POST /projects/:project_id/endpoints/:endpoint_id/restart',
} as const

/** A branch's compute: its state and size, why it has them, and what can be done about it. */
export function ComputePanel({ endpoint, onChange }: PanelProps) {
  const word = wordFor(endpoint)
  const { current_cu, autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } = endpoint
  const isChanging = word === 'Starting' || word === 'Suspending'
  return (
    <section className="panel" aria-labelledby="compute">
      <div className="heading">
        <h2 id="compute">Compute</h2>
        <span role="status">
          <span className={`mark ${word.toLowerCase()}`}>{word}</span>
        </span>
      </div>
      <Actions endpoint={endpoint} onChange={onChange} />
      <dl className="facts">
        <dt>{word === 'Active' ? 'Why awake' : isChanging ? 'Now' : 'Why not awake'}</dt>
        <dd className="awake">
          <Awake endpoint={endpoint} />
        </dd>
        <dt>Size</dt>
        <dd>
          {current_cu === undefined ? sizes(min, max) : `${current_cu} CU`}
          <SizeReason endpoint={endpoint} />
        </dd>
        <dt>Sleeps after</dt>
        <dd>{timeoutWords(endpoint.suspend_timeout_seconds)}</dd>
        {endpoint.current_state === 'active' && endpoint.started_at !== undefined && (
          <>
            <dt>Started</dt>
            <dd>
              <Moment at={endpoint.started_at} />
            </dd>
          </>
        )}
        <dt>Host</dt>
        <dd>
          <Copied text={endpoint.host} what="the host name" />
        </dd>
        <dt>Endpoint</dt>
        <dd>
          <Copied text={endpoint.id} what="the endpoint's id" />
        </dd>
      </dl>
    </section>
  )
}

/** Why it has its size: fixed ones explain themselves, others by the autoscaler's latest record. */
function SizeReason({ endpoint }: { readonly endpoint: Endpoint }) {
  const { project_id, id, autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max, current_cu } = endpoint
  const last = useQuery({
    queryKey: [...keysOf(project_id).state, 'scaling', id, current_cu],
    enabled: min !== max && current_cu !== undefined,
    queryFn: async (): Promise<Scaling | null> => {
      const params = { project_id, endpoint_id: id }
      const key = 'GET /projects/:project_id/endpoints/:endpoint_id/scaling'
      return (await call(key, { params, query: { limit: 1 } })).scaling[0] ?? null
    },
  })
  return sizeWords(endpoint, last.data ?? undefined).map((sentence) => <small key={sentence}>{sentence}</small>)
}

function Actions({ endpoint, onChange }: PanelProps) {
  const params = { project_id: endpoint.project_id, endpoint_id: endpoint.id }
  const change = useMutation({
    mutationFn: (verb: keyof typeof VERBS) => call(VERBS[verb], { params }),
    onSettled: onChange,
  })
  const unavailable = unavailableNow(endpoint, change.isPending)
  return (
    <>
      <div className="actions-row">
        <Action unavailable={unavailable.start} onClick={() => change.mutate('start')}>
          Start
        </Action>
        <Action unavailable={unavailable.suspend} onClick={() => change.mutate('suspend')}>
          Suspend
        </Action>
        <Action unavailable={unavailable.restart} onClick={() => change.mutate('restart')}>
          Restart
        </Action>
        <Resize endpoint={endpoint} onChange={onChange} />
        <SuspendTimeout endpoint={endpoint} onChange={onChange} />
        <Move endpoint={endpoint} onChange={onChange} unavailable={unavailable.move} />
        <Enable endpoint={endpoint} onChange={onChange} />
      </div>
      {endpoint.disabled && <small>It is stopped: enable it before it is started or restarted.</small>}
      {change.error && <p role="alert">{change.error.message}</p>}
    </>
  )
}
