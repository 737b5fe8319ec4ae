import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { asks, confirm } from './confirm.ts'
import { card, type Columns, list, moment, printable } from './table.ts'
import { wholeNumber } from './values.ts'
import { noun, type VerbSession, verb } from './verb.ts'

type Webhook = ApiResponse<'GET /webhooks'>['webhooks'][number]
type Delivery = ApiResponse<'GET /webhooks/:webhook_id/deliveries'>['deliveries'][number]
type Event = Webhook['events'][number]

const COLUMNS: Columns<Webhook> = {
  ID: ({ id }) => id,
  URL: ({ url }) => url,
  PROJECT: ({ project_id }) => project_id,
  STATE: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  EVENTS: ({ events }) => events.join(' '),
}

const DETAILS: Columns<Webhook> = {
  ...COLUMNS,
  BECAUSE: ({ disabled_reason }) => disabled_reason,
  'FAILING SINCE': ({ failing_since }) => moment(failing_since),
  'OLD SECRET UNTIL': ({ previous_secret_until }) => moment(previous_secret_until),
  CREATED: ({ created_at }) => moment(created_at),
}

const DELIVERIES: Columns<Delivery> = {
  ID: ({ id }) => id,
  EVENT: ({ event }) => event,
  STATUS: ({ status }) => status,
  HAPPENED: ({ occurred_at }) => moment(occurred_at),
  TRIES: ({ attempts }) => String(attempts),
  ANSWER: ({ response_status }) => (response_status === undefined ? undefined : String(response_status)),
  'NEXT TRY': ({ next_attempt_at }) => moment(next_attempt_at),
  ERROR: ({ error }) => error,
}

const id = (name: string, about: string) =>
  new Argument(`<${name}>`, about).argParser((text: string) => {
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text
    throw new InvalidArgumentError(`It takes the id of a ${name}.`)
  })
const ID = id('webhook', 'its id')

/** Event names, separated by commas; the API checks them. */
const events = (text: string): Event[] => text.split(',').map((each) => each.trim() as Event)
const EVENTS = 'what to be told of, with commas between: operation.finished,operation.failed'

interface Attributes {
  readonly url?: string
  readonly events?: Event[]
  readonly project?: string
  readonly allProjects?: boolean
  readonly enable?: boolean
  readonly disable?: boolean
}

/** `neap webhooks …`, also `neap webhook …`. */
export function webhooksCommand(access: readonly Option[]): Command {
  return noun('webhooks', 'Webhooks: HTTP notifications of changes.', access, [
    new Command('list').description('List the webhooks.').action(
      verb(async ({ call }: VerbSession<object>) => ({
        answer: await call('GET /webhooks', {}),
        text: ({ webhooks }) => list(webhooks, COLUMNS, 'No webhooks.'),
      })),
    ),
    new Command('get')
      .description('Show a webhook.')
      .addArgument(ID)
      .action(
        verb(async ({ call }: VerbSession<object>, webhook_id: string) => ({
          answer: await call('GET /webhooks/:webhook_id', { params: { webhook_id } }),
          text: ({ webhook }) => card(webhook, DETAILS),
        })),
      ),
    new Command('create')
      .description('Create a webhook and print the secret of its signatures, this once.')
      .argument('<url>', 'where to')
      .addOption(new Option('--events <events>', EVENTS).argParser(events).makeOptionMandatory())
      .option('-p, --project <project>', 'the one project to be told of: its id or name')
      .action(
        verb(async ({ call, flags, project }: VerbSession<Attributes>, url: string) => {
          const only = flags.project === undefined ? {} : await project()
          return {
            answer: await call('POST /webhooks', { body: { webhook: { url, events: flags.events ?? [], ...only } } }),
            text: ({ webhook, secret }) => `${webhook.id}\n${secret}`,
          }
        }),
      ),
    new Command('update')
      .description('Change a webhook.')
      .addArgument(ID)
      .option('--url <url>', 'where to')
      .addOption(new Option('--events <events>', EVENTS).argParser(events))
      .option('-p, --project <project>', 'the one project to be told of: its id or name')
      .addOption(new Option('--all-projects', 'told of all projects').conflicts('project'))
      .option('--enable', 'begin to deliver again')
      .addOption(new Option('--disable', 'stop deliveries and drop pending ones').conflicts('enable'))
      .action(
        verb(async ({ call, flags, project }: VerbSession<Attributes>, webhook_id: string) => {
          const { url, allProjects, enable, disable } = flags
          const { project_id } = flags.project !== undefined ? await project() : allProjects ? { project_id: null } : {}
          const webhook = { url, events: flags.events, project_id, enabled: enable ?? (disable ? false : undefined) }
          return {
            answer: await call('PATCH /webhooks/:webhook_id', { params: { webhook_id }, body: { webhook } }),
            text: (answer) => card(answer.webhook, DETAILS),
          }
        }),
      ),
    new Command('rotate-secret')
      .description('Give a webhook a new secret and print it, this once; the old one counts for 24 hours still.')
      .addArgument(ID)
      .action(
        verb(async ({ call }: VerbSession<object>, webhook_id: string) => ({
          answer: await call('POST /webhooks/:webhook_id/rotate_secret', { params: { webhook_id } }),
          text: ({ secret }) => secret,
        })),
      ),
    asks(new Command('delete').description('Delete a webhook.').addArgument(ID)).action(
      verb(async ({ call, flags }: VerbSession<object>, webhook_id: string) => {
        await confirm(`Delete the webhook ${webhook_id}, and what waits to be delivered?`, flags)
        return {
          answer: await call('DELETE /webhooks/:webhook_id', { params: { webhook_id } }),
          text: ({ webhook }) => `Deleted the webhook to ${printable(webhook.url)} (${webhook.id}).`,
        }
      }),
    ),
    new Command('test')
      .description('Send a test event to a webhook.')
      .addArgument(ID)
      .action(
        verb(async ({ call }: VerbSession<object>, webhook_id: string) => ({
          answer: await call('POST /webhooks/:webhook_id/test', { params: { webhook_id } }),
          text: ({ delivery }) => delivery.id,
        })),
      ),
    new Command('deliveries')
      .description('List what a webhook was told in the last 7 days, newest first.')
      .addArgument(ID)
      .addOption(new Option('--limit <number>', 'at most so many').argParser(wholeNumber(1, 1000)).default(100))
      .action(
        verb(async ({ call, flags }: VerbSession<{ readonly limit: number }>, webhook_id: string) => ({
          answer: await call('GET /webhooks/:webhook_id/deliveries', {
            params: { webhook_id },
            query: { limit: flags.limit },
          }),
          text: ({ deliveries }) => list(deliveries, DELIVERIES, 'Nothing yet.'),
        })),
      ),
    new Command('redeliver')
      .description('Repeat a delivery.')
      .addArgument(ID)
      .addArgument(id('delivery', 'its id in neap webhooks deliveries'))
      .action(
        verb(async ({ call }: VerbSession<object>, webhook_id: string, delivery_id: string) => ({
          answer: await call('POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver', {
            params: { webhook_id, delivery_id },
          }),
          text: ({ delivery }) => `Delivers ${delivery.event} again (${delivery.id}).`,
        })),
      ),
  ]).alias('webhook')
}
