import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import type { ApiResponse, ApiClient } from '../client.ts'
import { branchId, endpointId } from './resolve.ts'
import { card, type Columns, duration, list, moment } from './table.ts'
import { wholeNumber } from './values.ts'
import { noun, PROJECT, quiet, type VerbSession, timeout, verb } from './verb.ts'
import { isEnded, type ApiOperation } from './wait.ts'

const STATUSES = ['scheduling', 'running', 'finished', 'failed'] as const

const COLUMNS: Columns<ApiOperation> = {
  ID: ({ id }) => id,
  ACTION: ({ action }) => action,
  STATUS: ({ status }) => status,
  SUBJECT: ({ endpoint_id, branch_id, project_id }) => endpoint_id ?? branch_id ?? project_id,
  CREATED: ({ created_at }) => moment(created_at),
  TOOK: (operation) =>
    isEnded(operation) && operation.total_duration_ms < 1000
      ? `${operation.total_duration_ms} ms`
      : duration(operation.total_duration_ms),
  'WAITS BECAUSE': ({ wait_reason }) => wait_reason,
  ERROR: ({ error }) => error,
}

const { SUBJECT: _, ...REST } = COLUMNS
const DETAILS: Columns<ApiOperation> = {
  ...REST,
  PROJECT: ({ project_id }) => project_id,
  BRANCH: ({ branch_id }) => branch_id,
  ENDPOINT: ({ endpoint_id }) => endpoint_id,
  FAILURES: ({ failures_count }) => (failures_count > 0 ? String(failures_count) : undefined),
  'NEXT TRY': ({ retry_at }) => moment(retry_at),
}

type Page = ApiResponse<'GET /projects/:project_id/operations'>

interface Filters {
  readonly endpoint?: string
  readonly branch?: string
  readonly action?: string
  readonly status?: (typeof STATUSES)[number]
  readonly limit?: number
  readonly all?: boolean
}

const ID = new Argument('<operation>', 'its id').argParser(operationId)

function operationId(text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text))
    throw new InvalidArgumentError('It takes the id of an operation; neap operations list shows them.')
  return text
}

/** `neap operations …` */
export function operationsCommand(access: readonly Option[]): Command {
  return noun(
    'operations',
    'Operations: what Neap does to make true what was asked for.',
    [...access, PROJECT],
    [
      new Command('list')
        .description('List the operations of a project, newest first.')
        .option('-e, --endpoint <endpoint>', 'only those of this endpoint: its id or name, or its branch')
        .option('-b, --branch <branch>', 'only those of this branch: its id or name')
        .option('--action <action>', 'only those with this action, such as start_compute')
        .addOption(new Option('--status <status>', 'only those with this status').choices(STATUSES))
        .addOption(new Option('--limit <number>', 'at most so many').argParser(wholeNumber(1, 1000)).default(100))
        .addOption(new Option('--all', 'all of them, however many').conflicts('limit'))
        .action(
          verb(async ({ call, flags, project }: VerbSession<Filters>) => ({
            answer: await select(call, (await project()).project_id, flags),
            text: ({ operations }) => list(operations, COLUMNS, 'No operations.'),
          })),
        ),
      new Command('get')
        .description('Show an operation.')
        .addArgument(ID)
        .action(
          verb(async ({ call, project }: VerbSession<object>, operation_id: string) => ({
            answer: await call('GET /projects/:project_id/operations/:operation_id', {
              params: { ...(await project()), operation_id },
            }),
            text: ({ operation }) => card(operation, DETAILS),
          })),
        ),
      new Command('wait')
        .description('Wait until operations have ended; fail if one of them does.')
        .argument('[operations...]', 'their ids; all that have not ended unless given')
        .addOption(timeout())
        .addOption(quiet())
        .action(
          verb(async ({ call, project }: VerbSession<object>, ids: string[]) => {
            const { project_id } = await project()
            return {
              answer: { operations: await (ids.length > 0 ? byId(call, project_id, ids) : open(call, project_id)) },
              text: ({ operations }) => list(operations, COLUMNS, 'No operation is under way.'),
              waits: true,
            }
          }),
        ),
      new Command('cancel')
        .description('Cancel an operation that has not begun.')
        .addArgument(ID)
        .action(
          verb(async ({ call, project }: VerbSession<object>, operation_id: string) => ({
            answer: await call('POST /projects/:project_id/operations/:operation_id/cancel', {
              params: { ...(await project()), operation_id },
            }),
            text: ({ operation }) => `Cancelled ${operation.action} (${operation.id}).`,
          })),
        ),
    ],
  )
}

async function select(call: ApiClient, project_id: string, { endpoint, branch, ...flags }: Filters): Promise<Page> {
  const params = { project_id }
  const query = {
    limit: flags.all ? 1000 : (flags.limit ?? 100),
    action: flags.action,
    status: flags.status,
    endpoint_id: endpoint && (await endpointId(call, project_id, endpoint)),
    branch_id: branch && (await branchId(call, project_id, branch)),
  }
  const page = await call('GET /projects/:project_id/operations', { params, query })
  if (!flags.all) return page
  for (let last = page; last.pagination; page.operations.push(...last.operations)) {
    const { cursor } = last.pagination
    last = await call('GET /projects/:project_id/operations', { params, query: { ...query, cursor } })
  }
  return { operations: page.operations }
}

/** Two requests, since the API filters by one status; oldest first, as they run. */
async function open(call: ApiClient, project_id: string): Promise<ApiOperation[]> {
  const running = await select(call, project_id, { status: 'running', all: true })
  const scheduled = await select(call, project_id, { status: 'scheduling', all: true })
  const known = new Set(running.operations.map(({ id }) => id))
  const both = [...running.operations, ...scheduled.operations.filter(({ id }) => !known.has(id))]
  return both.sort((a, b) => a.created_at.localeCompare(b.created_at))
}

async function byId(call: ApiClient, project_id: string, ids: readonly string[]): Promise<ApiOperation[]> {
  const found: ApiOperation[] = []
  for (const operation_id of ids) {
    const params = { project_id, operation_id }
    found.push((await call('GET /projects/:project_id/operations/:operation_id', { params })).operation)
  }
  return found
}
