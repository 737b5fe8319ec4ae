import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { call } from '../../api.ts'
import { Copied } from '../../parts/copied.tsx'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import type { Webhook } from './webhooks.tsx'

type Delivery = ApiResponse<'GET /webhooks/:webhook_id/deliveries'>['deliveries'][number]

const PAGE = 50
const REFRESH_MS = 5_000

/** What a webhook was told in the last days, as it happens. */
export function Deliveries({ webhook }: { readonly webhook: Webhook }) {
  const queries = useQueryClient()
  const params = { webhook_id: webhook.id }
  const queryKey = ['webhooks', webhook.id, 'deliveries']
  const deliveries = useInfiniteQuery({
    queryKey,
    initialPageParam: undefined as number | undefined,
    refetchInterval: REFRESH_MS,
    queryFn: ({ pageParam }) =>
      call('GET /webhooks/:webhook_id/deliveries', { params, query: { limit: PAGE, cursor: pageParam } }),
    getNextPageParam: ({ deliveries: page, pagination }) =>
      page.length < PAGE || !pagination ? undefined : Number(pagination.cursor),
  })
  const test = useMutation({
    mutationFn: () => call('POST /webhooks/:webhook_id/test', { params }),
    onSettled: () => queries.invalidateQueries({ queryKey }),
  })
  if (deliveries.isPending) return <Loading what="Reading the deliveries" />
  if (deliveries.error && !deliveries.data)
    return <Failure error={deliveries.error} retry={() => void deliveries.refetch()} />
  const rows = deliveries.data.pages.flatMap((page) => page.deliveries)
  return (
    <>
      <div className="heading next">
        <h2>Deliveries to {webhook.url}</h2>
        <span>
          {test.error && <small role="alert">{test.error.message}</small>}{' '}
          <button
            type="button"
            disabled={test.isPending || !webhook.enabled}
            title={webhook.enabled ? undefined : 'The webhook is disabled: enable it first.'}
            onClick={() => test.mutate()}
          >
            Send a test
          </button>
        </span>
      </div>
      {rows.length === 0 ? (
        <Empty title="No deliveries yet">
          <p>Send a test to see whether the receiver answers.</p>
        </Empty>
      ) : (
        <Table
          label="Deliveries"
          rows={rows}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Event', of: ({ event, id }) => <Event event={event} id={id} /> },
            { title: 'State', of: (delivery) => <Outcome delivery={delivery} /> },
            { title: 'Tries', of: ({ attempts }) => attempts },
            { title: 'Happened', of: ({ occurred_at }) => <Moment at={occurred_at} /> },
            {
              title: 'Actions',
              isActions: true,
              of: (delivery) => <Redeliver webhook={webhook} delivery={delivery} queryKey={queryKey} />,
            },
          ]}
        />
      )}
      {deliveries.hasNextPage && (
        <button type="button" disabled={deliveries.isFetchingNextPage} onClick={() => void deliveries.fetchNextPage()}>
          Show more
        </button>
      )}
    </>
  )
}

const Event = ({ event, id }: { readonly event: string; readonly id: string }) => (
  <>
    <code>{event}</code>
    <br />
    <Copied text={id} what="the delivery’s id" />
  </>
)

const MARKS = { delivered: 'finished', failed: 'failed', pending: 'running' } as const

function Outcome({ delivery }: { readonly delivery: Delivery }) {
  const { status, response_status: code, error, next_attempt_at: next, response_body: body } = delivery
  return (
    <>
      <span className={`mark ${MARKS[status]}`}>{status}</span>
      {code !== undefined && <small>status {code}</small>}
      {error !== undefined && <small> {error}</small>}
      {body !== undefined && body !== '' && <small> {body}</small>}
      {next !== undefined && (
        <small>
          , next try <Moment at={next} />
        </small>
      )}
    </>
  )
}

interface RedeliverProps {
  readonly webhook: Webhook
  readonly delivery: Delivery
  readonly queryKey: readonly string[]
}

function Redeliver({ webhook, delivery, queryKey }: RedeliverProps) {
  const queries = useQueryClient()
  const params = { webhook_id: webhook.id, delivery_id: delivery.id }
  const again = useMutation({
    mutationFn: () => call('POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver', { params }),
    onSettled: () => queries.invalidateQueries({ queryKey }),
  })
  const reason = delivery.status === 'pending' ? 'It is being delivered.' : undefined
  return (
    <>
      {again.error && <small role="alert">{again.error.message}</small>}
      <button
        type="button"
        disabled={again.isPending || !webhook.enabled || reason !== undefined}
        title={webhook.enabled ? reason : 'The webhook is disabled: enable it first.'}
        onClick={() => again.mutate()}
      >
        Try again
      </button>
    </>
  )
}
