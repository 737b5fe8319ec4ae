import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useSearchParams } from 'wouter'
import type { ApiResponse } from '../../../../src/client.ts'
import { call, prepare } from '../../api.ts'
import { Copied } from '../../parts/copied.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import { Deliveries } from './deliveries.tsx'
import { NewWebhook, Secret } from './new_webhook.tsx'

export type Webhook = ApiResponse<'GET /webhooks'>['webhooks'][number]

const ONE = '/webhooks/:webhook_id'

/** The webhooks of the account; the deliveries of the one in the address. */
export function Webhooks() {
  const queries = useQueryClient()
  const [address, setAddress] = useSearchParams()
  const opened = address.get('webhook')
  const webhooks = useQuery({
    queryKey: ['webhooks'],
    queryFn: async () => (await call('GET /webhooks', {})).webhooks,
  })
  if (webhooks.isPending) return <Loading what="Reading the webhooks" />
  if (webhooks.error && !webhooks.data) return <Failure error={webhooks.error} retry={() => void webhooks.refetch()} />
  const done = () => queries.invalidateQueries({ queryKey: ['webhooks'] })
  const shown = webhooks.data.find(({ id }) => id === opened)
  return (
    <>
      <div className="heading">
        <h2>Webhooks</h2>
        <NewWebhook done={done} />
      </div>
      {webhooks.data.length === 0 ? (
        <Empty title="No webhooks">
          <p>A webhook tells a program of yours, by a signed request, what happens to branches and computes.</p>
        </Empty>
      ) : (
        <Table
          label="Webhooks"
          rows={webhooks.data}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Address', of: ({ url, id }) => <Address url={url} id={id} /> },
            { title: 'State', of: (webhook) => <State webhook={webhook} /> },
            { title: 'Events', of: ({ events }) => <small>{events.join(', ')}</small> },
            { title: 'Project', of: ({ project_id }) => project_id ?? 'all' },
            {
              title: 'Actions',
              isActions: true,
              of: (webhook) => (
                <>
                  <button
                    type="button"
                    aria-expanded={webhook.id === opened}
                    onClick={() => setAddress(webhook.id === opened ? {} : { webhook: webhook.id })}
                  >
                    Deliveries
                  </button>
                  <Actions webhook={webhook} done={done} />
                </>
              ),
            },
          ]}
        />
      )}
      {shown && <Deliveries webhook={shown} />}
    </>
  )
}

function Address({ url, id }: { readonly url: string; readonly id: string }) {
  return (
    <>
      {url}
      <br />
      <Copied text={id} what="the webhook’s id" />
    </>
  )
}

function State({ webhook: { enabled, disabled_reason: why, failing_since: since } }: { readonly webhook: Webhook }) {
  return (
    <>
      <span className={`mark ${enabled ? 'active' : 'stopped'}`}>{enabled ? 'Enabled' : 'Disabled'}</span>
      {why !== undefined && <small>{why}</small>}
      {since !== undefined && (
        <small>
          failing since <Moment at={since} />
        </small>
      )}
    </>
  )
}

interface ActionsProps {
  readonly webhook: Webhook
  readonly done: () => unknown
}

function Actions({ webhook, done }: ActionsProps) {
  const { id, enabled, url } = webhook
  const params = { webhook_id: id }
  return (
    <>
      <FormDialog
        opener={enabled ? 'Disable' : 'Enable'}
        title={`${enabled ? 'Disable' : 'Enable'} the webhook?`}
        verb={enabled ? 'Disable webhook' : 'Enable webhook'}
        request={() => prepare(`PATCH ${ONE}`, { params, body: { webhook: { enabled: !enabled } } })}
        neap={() => ['webhooks', 'update', id, enabled ? '--disable' : '--enable']}
        done={done}
      >
        <p>{enabled ? 'Deliveries that wait are given up.' : 'It is told of what happens from now on.'}</p>
      </FormDialog>
      <FormDialog
        opener="New secret"
        title="Give the webhook a new secret?"
        verb="Make a new secret"
        request={() => prepare(`POST ${ONE}/rotate_secret`, { params })}
        neap={() => ['webhooks', 'rotate-secret', id]}
        done={done}
        result={({ secret }) => <Secret secret={secret} />}
      >
        <p>Deliveries are signed with both for a day, so that the receiver can be changed meanwhile.</p>
      </FormDialog>
      <FormDialog
        opener="Delete"
        title="Delete the webhook?"
        verb="Delete webhook"
        isDangerous
        request={() => prepare(`DELETE ${ONE}`, { params })}
        neap={() => ['webhooks', 'delete', id]}
        done={done}
      >
        <p>{url} is told nothing more.</p>
      </FormDialog>
    </>
  )
}
