import { useQuery } from '@tanstack/react-query'
import type { ApiInput } from '../../../../src/client.ts'
import { call, prepare } from '../../api.ts'
import { Copied } from '../../parts/copied.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'

type EventName = ApiInput<'POST /webhooks'>['body']['webhook']['events'][number]

/** Every event, which the type checker compares with the API's. */
const EVENTS: Readonly<Record<EventName, true>> = {
  'operation.scheduling': true,
  'operation.running': true,
  'operation.finished': true,
  'operation.failed': true,
  'endpoint.created': true,
  'endpoint.updated': true,
  'endpoint.scaled': true,
  'endpoint.active': true,
  'endpoint.idle': true,
  'endpoint.deleted': true,
  'branch.created': true,
  'branch.ready': true,
  'branch.updated': true,
  'branch.deleted': true,
  'notice.raised': true,
  'host.image_resized': true,
  'host.image_short': true,
}

const chosen = (fields: FormData): EventName[] => fields.getAll('event') as EventName[]

/** Creates a webhook, and shows the secret of its signatures once. */
export function NewWebhook({ done }: { readonly done: () => unknown }) {
  const projects = useQuery({
    queryKey: ['projects'],
    queryFn: async () => (await call('GET /projects', { query: { limit: 400 } })).projects,
  })
  return (
    <FormDialog
      action="new-webhook"
      opener="New webhook"
      title="New webhook"
      verb="Create webhook"
      request={(fields) => {
        const events = chosen(fields)
        if (events.length === 0) throw new Error('Choose one event at least.')
        const webhook = { url: textOf(fields, 'url') ?? '', events, project_id: textOf(fields, 'project') }
        return prepare('POST /webhooks', { body: { webhook } })
      }}
      neap={(fields) => [
        'webhooks',
        'create',
        '--events',
        chosen(fields).join(','),
        ...(textOf(fields, 'project') === undefined ? [] : ['--project', textOf(fields, 'project') ?? '']),
        textOf(fields, 'url') ?? '',
      ]}
      done={done}
      result={({ secret }) => <Secret secret={secret} />}
    >
      <Field label="Address" hint="Where to send: https, without a user or a password.">
        <input name="url" type="url" required maxLength={2048} autoComplete="off" placeholder="https://" />
      </Field>
      <Field label="Project">
        <select name="project">
          <option value="">all</option>
          {projects.data?.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      <fieldset className="events">
        <legend>Events</legend>
        {Object.keys(EVENTS).map((event) => (
          <label key={event}>
            <input type="checkbox" name="event" value={event} /> {event}
          </label>
        ))}
      </fieldset>
    </FormDialog>
  )
}

/** The secret of a webhook, which the API tells once. */
export function Secret({ secret }: { readonly secret: string }) {
  return (
    <>
      <p>Copy the secret now: it is not shown again. The receiver checks signatures with it.</p>
      <p>
        <Copied text={secret} what="the secret" />
      </p>
    </>
  )
}
