import { useQuery } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { call, type Endpoint } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { type Column, Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'

type Activity = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/activity'>['activity']
type Use = Activity['uses'][number]

const EVERY_MS = 10_000

/** Why a compute is awake, or asleep, and when that ends: asked while the page is looked at. */
export function Awake({ endpoint }: { readonly endpoint: Endpoint }) {
  const params = { project_id: endpoint.project_id, endpoint_id: endpoint.id }
  const asked = useQuery({
    queryKey: [...keysOf(endpoint.project_id).state, 'activity', endpoint.id],
    refetchInterval: endpoint.current_state === 'active' ? EVERY_MS : false,
    queryFn: async () => (await call('GET /projects/:project_id/endpoints/:endpoint_id/activity', { params })).activity,
  })
  if (asked.error && !asked.data) return <span role="alert">{asked.error.message}</span>
  if (!asked.data) return <span role="status">Asking the compute …</span>
  const { uses, slots } = asked.data
  return (
    <>
      <Words activity={asked.data} suspendedAt={endpoint.suspended_at} />
      {uses.length > 0 && (
        <Table label="Sessions" columns={COLUMNS} rows={uses} keyOf={({ pid, kind }) => kind + pid} />
      )}
      {slots.length > 0 && (
        <small>
          {slots.length === 1 ? 'A replication slot keeps' : `${slots.length} replication slots keep`} WAL for readers:{' '}
          {slots.map(({ name }) => name).join(', ')}.
        </small>
      )}
    </>
  )
}

function Words({ activity, suspendedAt }: { readonly activity: Activity; readonly suspendedAt: string | undefined }) {
  const { reason, suspends_at, pending_state, uses } = activity
  switch (reason) {
    case 'unused':
      return (
        <p>
          No client uses it. It goes to sleep {suspends_at === null ? 'soon' : <Moment at={suspends_at} />} unless one
          does until then.
        </p>
      )
    case 'busy': {
      const count = uses.filter(({ keeps_awake }) => keeps_awake).length
      return <p>It stays awake as long as {count === 1 ? 'this session works' : 'these sessions work'}.</p>
    }
    case 'never':
      return <p>No client uses it, and it never goes to sleep: its suspend timeout is off.</p>
    case 'moving':
      return <p>An operation is about to make it {pending_state}.</p>
    case 'disabled':
      return <p>It is stopped: no connection wakes it until it is enabled.</p>
    case 'closed':
      return <p>It is closed until the data of its branch are masked: no connection wakes it before.</p>
    default:
      return <Asleep since={suspendedAt} />
  }
}

function Asleep({ since }: { readonly since: string | undefined }) {
  if (since === undefined) return <p>It has not run yet. The next connection starts it.</p>
  return (
    <p>
      It went to sleep <Moment at={since} />. The next connection wakes it.
    </p>
  )
}

const COLUMNS: readonly Column<Use>[] = [
  { title: 'Client', of: ({ name, kind }) => (name === null || name === '' ? kind : name) },
  { title: 'Role', of: ({ role }) => role ?? '' },
  { title: 'Database', of: ({ database }) => database ?? '' },
  {
    title: 'State',
    of: ({ state, keeps_awake }) => (
      <>
        {state ?? ''} {keeps_awake && <span className="mark running">keeps it awake</span>}
      </>
    ),
  },
  { title: 'Since', of: ({ since }) => since && <Moment at={since} /> },
]
