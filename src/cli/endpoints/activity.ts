import { Command } from 'commander'
import type { ApiResponse } from '../../client.ts'
import { state, suspends, yes } from '../columns.ts'
import { card, type Columns, list, moment } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { OPTIONAL } from './columns.ts'

type Found = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/activity'>
type Activity = Found['activity']

const SUMMARY: Columns<Activity> = {
  ENDPOINT: ({ endpoint_id }) => endpoint_id,
  STATE: ({ current_state, pending_state }) => state(current_state, pending_state),
  'SUSPENDED AFTER': ({ suspend_timeout_seconds: seconds }) => suspends(seconds),
  'LAST ACTIVE': ({ last_active }) => moment(last_active),
  'UNUSED SINCE': ({ idle_since }) => moment(idle_since),
  'SUSPENDED AT': ({ suspends_at }) => moment(suspends_at),
  NOW: ({ explanation }) => explanation,
}

const USES: Columns<Activity['uses'][number]> = {
  KIND: ({ kind }) => kind,
  PID: ({ pid }) => String(pid),
  NAME: ({ name }) => name ?? undefined,
  ROLE: ({ role }) => role ?? undefined,
  DATABASE: ({ database }) => database ?? undefined,
  STATE: (use) => use.state ?? undefined,
  SINCE: ({ since }) => moment(since),
  'TRANSACTION SINCE': ({ transaction_since }) => moment(transaction_since),
  'QUERY SINCE': ({ query_since }) => moment(query_since),
  'KEEPS AWAKE': ({ keeps_awake }) => yes(keeps_awake),
}

const SLOTS: Columns<Activity['slots'][number]> = {
  SLOT: ({ name }) => name,
  KIND: ({ kind }) => kind,
  DATABASE: ({ database }) => database ?? undefined,
  READ: ({ active }) => yes(active),
  'WAL KEPT': ({ kept_bytes }) => (kept_bytes === null ? undefined : `${Math.ceil(kept_bytes / 2 ** 20)} MiB`),
}

export const activityVerb = () =>
  new Command('activity')
    .description('Show what keeps an endpoint awake, since when, and when it will be suspended.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, endpoint }: VerbSession<object>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/endpoints/:endpoint_id/activity', {
          params: await endpoint(asked),
        }),
        text,
      })),
    )

function text({ activity }: Found): string {
  const tables = [
    activity.uses.length > 0 && list(activity.uses, USES, ''),
    activity.slots.length > 0 && list(activity.slots, SLOTS, ''),
  ]
  return [card(activity, SUMMARY), ...tables].filter(Boolean).join('\n\n')
}
