import { type Static, Type } from 'typebox'
import { isClosed } from '../../catalog/branch.ts'
import type { Endpoint } from '../../catalog/endpoint.ts'
import { endpointTraffic } from '../../catalog/traffic.ts'
import { type EndpointUse, lookAtUse } from '../../commands/read_endpoint_use.ts'
import { requireBranch, requireEndpoint, requireProject } from '../../commands/require.ts'
import { EndpointState } from '../../views/endpoint.ts'
import { route } from '../route.ts'
import { EndpointParams } from './endpoints.ts'

const Time = Type.String({ format: 'date-time' })
const MaybeTime = Type.Union([Time, Type.Null()])
const Name = Type.Union([Type.String(), Type.Null()])

const Use = Type.Object({
  kind: Type.Union([
    Type.Literal('session'),
    Type.Literal('replication'),
    Type.Literal('backup'),
    Type.Literal('subscription'),
    Type.Literal('branching'),
  ]),
  pid: Type.Integer(),
  name: Name,
  role: Name,
  database: Name,
  state: Name,
  since: MaybeTime,
  transaction_since: MaybeTime,
  query_since: MaybeTime,
  keeps_awake: Type.Boolean(),
})

const Slot = Type.Object({
  name: Type.String(),
  kind: Type.Union([Type.Literal('physical'), Type.Literal('logical')]),
  database: Name,
  active: Type.Boolean(),
  kept_bytes: Type.Union([Type.Number(), Type.Null()], {
    description:
      'WAL that is kept for the reader of this slot. Once it is more than 10 GB the slot is lost (null): ' +
      'its reader begins anew with another one',
  }),
})

const Activity = Type.Object(
  {
    endpoint_id: Type.String(),
    current_state: EndpointState,
    pending_state: Type.Optional(EndpointState),
    suspend_timeout_seconds: Type.Integer(),
    last_active: MaybeTime,
    idle_since: MaybeTime,
    suspends_at: MaybeTime,
    reason: Type.Union([
      Type.Literal('unused'),
      Type.Literal('busy'),
      Type.Literal('never'),
      Type.Literal('asleep'),
      Type.Literal('disabled'),
      Type.Literal('closed'),
      Type.Literal('moving'),
    ]),
    explanation: Type.String(),
    traffic: Type.Object(
      {
        since: Time,
        bytes_to_clients: Type.Integer(),
        bytes_from_clients: Type.Integer(),
        connections: Type.Integer(),
      },
      { description: 'What passed through the proxies since the month began, as of some seconds ago' },
    ),
    uses: Type.Array(Use),
    slots: Type.Array(Slot),
  },
  { $id: 'EndpointActivity' },
)

/** Lists sessions without their queries: see `readUses`. */
export const getEndpointActivity = route('GET /projects/:project_id/endpoints/:endpoint_id/activity', {
  summary: 'What keeps a compute awake, since when, and when it will be suspended',
  tag: 'Endpoint',
  params: EndpointParams,
  returns: Type.Object({ activity: Activity }),
  errors: ['NOT_FOUND', 'UNAVAILABLE'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const endpoint = await requireEndpoint(context, params)
  const runs = endpoint.current_state === 'active'
  const found = runs ? await lookAtUse(context, endpoint.id) : undefined
  // The endpoint may have been suspended since.
  const now = runs && !found ? await requireEndpoint(context, params) : endpoint
  const traffic = await endpointTraffic(context.db, now.project_id, now.id)
  const isOpen = !isClosed(await requireBranch(context, now.project_id, now.branch_id))
  const timeout = now.suspend_timeout_seconds || context.config.suspendTimeout
  return { activity: { ...present(now, { timeout, found, isOpen }), traffic } }
})

interface Seen {
  readonly timeout: number
  readonly found: EndpointUse | undefined
  /** Whether clients may enter its branch. */
  readonly isOpen: boolean
}

function present(endpoint: Endpoint, seen: Seen): Omit<Static<typeof Activity>, 'traffic'> {
  const { timeout, found } = seen
  const reason = reasonOf(endpoint, seen)
  const suspendsAt = found && reason === 'unused' ? time(found.idleSince + timeout * 1000) : null
  return {
    endpoint_id: endpoint.id,
    current_state: endpoint.current_state,
    ...(endpoint.pending_state && { pending_state: endpoint.pending_state }),
    suspend_timeout_seconds: timeout,
    last_active: endpoint.last_active,
    idle_since: found && !found.busy ? time(found.idleSince) : null,
    suspends_at: suspendsAt,
    reason,
    explanation: explain(reason, endpoint, found, suspendsAt),
    uses: (found?.uses ?? []).map((use) => ({
      ...use,
      since: time(use.since),
      transaction_since: time(use.transaction_since),
      query_since: time(use.query_since),
    })),
    slots: [...(found?.slots ?? [])],
  }
}

type Reason = Static<typeof Activity>['reason']

function reasonOf(endpoint: Endpoint, { timeout, found, isOpen }: Seen): Reason {
  if (endpoint.pending_state !== null) return 'moving'
  if (endpoint.disabled) return 'disabled'
  if (!found) return isOpen ? 'asleep' : 'closed'
  if (found.busy) return 'busy'
  return timeout === -1 ? 'never' : 'unused'
}

function explain(
  reason: Reason,
  endpoint: Endpoint,
  found: EndpointUse | undefined,
  suspendsAt: string | null,
): string {
  const { pending_state, suspended_at } = endpoint
  const says: Record<Reason, string> = {
    moving: `An operation is about to make it ${pending_state}.`,
    disabled: 'It is disabled: no connection wakes it until it is enabled.',
    closed: 'It is closed until the data of its branch are masked: no connection wakes it before.',
    asleep: suspended_at
      ? `It has been asleep since ${suspended_at}; the next connection wakes it.`
      : 'It has never run; the next connection starts it.',
    busy: `It stays awake as long as this goes on: ${kindsOf(found)}.`,
    never: 'Nobody uses it now. It is never suspended, since suspend_timeout_seconds is -1.',
    unused: `Nobody uses it now. It is suspended at ${suspendsAt} unless somebody does until then.`,
  }
  return says[reason]
}

/** Counts the uses that keep the compute awake by kind, as text. */
function kindsOf(found: EndpointUse | undefined): string {
  const awake = (found?.uses ?? []).filter((use) => use.keeps_awake)
  const counts = Map.groupBy(awake, ({ kind }) => kind)
  return [...counts].map(([kind, { length }]) => `${kind} (${length})`).join(', ') || 'an activity that has just ended'
}

const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())
