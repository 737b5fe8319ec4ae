import { Argument } from 'commander'
import { size, state, suspends, underWay, yes } from '../columns.ts'
import type { ApiEndpoint } from '../resolve.ts'
import { type Columns, moment } from '../table.ts'
import type { ApiOperation } from '../wait.ts'

/** The columns of a list of endpoints. */
export const COLUMNS: Columns<ApiEndpoint> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  BRANCH: ({ branch_id }) => branch_id,
  STATE: ({ current_state, pending_state }) => state(current_state, pending_state),
  DISABLED: ({ disabled }) => yes(disabled),
  SIZE: ({ autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max }) => size(min, max),
  SUSPEND: ({ suspend_timeout_seconds: seconds }) => suspends(seconds),
  'LAST ACTIVE': ({ last_active }) => moment(last_active),
}

const settings = ({ settings: { pg_settings } }: ApiEndpoint): string | undefined =>
  Object.entries(pg_settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ') || undefined

const WRITES_REFUSED = {
  branch_size: 'the branch is larger than the limit of its project',
  host_disk: 'the disk of its host is almost full',
}

const ONE: Columns<ApiEndpoint> = {
  ...COLUMNS,
  'SIZE NOW': ({ current_cu }) => (current_cu === undefined ? undefined : `${current_cu} CU`),
  'SIZE WANTED': ({ wanted_cu }) =>
    wanted_cu === undefined ? undefined : `${wanted_cu} CU; its host has no room for more now`,
  PASSWORDLESS: ({ passwordless_access }) => yes(passwordless_access),
  'WRITES REFUSED': ({ writes_refused }) => writes_refused && WRITES_REFUSED[writes_refused],
  'SIZE NOT ENFORCED': ({ limit_error }) => limit_error,
  HOST: ({ host }) => host,
  'PG SETTINGS': settings,
  CREATED: ({ created_at }) => moment(created_at),
}

interface Changed {
  readonly endpoint: ApiEndpoint
  readonly operations?: readonly ApiOperation[]
}

/** The lines that show one endpoint and its operations. */
export const DETAILS: Columns<Changed> = {
  ...Object.fromEntries(
    Object.entries(ONE).map(([heading, cell]) => [heading, ({ endpoint }: Changed) => cell(endpoint)]),
  ),
  OPERATIONS: ({ operations = [] }) => underWay(operations),
}

const what = 'its id or name, or the branch it serves'

/** An endpoint that may be left out. */
export const OPTIONAL = new Argument('[endpoint]', `${what}; that of the default branch unless given`)
/** An endpoint that must be named. */
export const REQUIRED = new Argument('<endpoint>', what)
