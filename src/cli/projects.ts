import { Argument, Command, Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { UsageError } from '../errors.ts'
import { size, span, suspends, underWay } from './columns.ts'
import { asks, confirm } from './confirm.ts'
import { branchNow, listProjects, type ApiProject } from './resolve.ts'
import { card, type Columns, list, moment, printable } from './table.ts'
import { computeSize, seconds, type SizeLimits, suspendTimeout as readSuspendTimeout, wholeNumber } from './values.ts'
import { noun, type VerbSession, verb, waits } from './verb.ts'

const COLUMNS: Columns<ApiProject> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  POSTGRES: ({ pg_version }) => String(pg_version),
  REGION: ({ region_id }) => region_id,
  CREATED: ({ created_at }) => moment(created_at),
}

const DETAILS: Columns<ApiProject> = {
  ...COLUMNS,
  HISTORY: ({ history_retention_seconds }) => span(history_retention_seconds),
  'DEFAULT SIZE': ({ default_endpoint_settings: { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } }) =>
    min === undefined || max === undefined ? undefined : size(min, max),
  'DEFAULT SUSPEND': ({ default_endpoint_settings: { suspend_timeout_seconds: timeout } }) =>
    timeout === undefined ? undefined : suspends(timeout),
}

const MADE: Columns<ApiResponse<'POST /projects'>> = {
  ID: ({ project }) => project.id,
  NAME: ({ project }) => project.name,
  POSTGRES: ({ project }) => String(project.pg_version),
  BRANCH: ({ branch }) => branch.name,
  ENDPOINT: ({ endpoints }) => endpoints[0]?.id,
  CONNECTION: ({ connection_uris }) => connection_uris[0]?.connection_uri,
  OPERATIONS: ({ operations }) => underWay(operations),
}

const OPTIONAL = new Argument('[project]', 'its id or name; may be left out where there is only one')
const HOW = 'Say which project by its id or name'

interface Defaults {
  readonly cu?: SizeLimits
  readonly suspendTimeout?: number
}

function defaults({ cu, suspendTimeout }: Defaults) {
  return cu === undefined && suspendTimeout === undefined
    ? undefined
    : { ...cu, suspend_timeout_seconds: suspendTimeout }
}

function takesDefaults(command: Command): Command {
  return command
    .addOption(new Option('--cu <size>', 'size of new computes: 0.5, or 1-4 to scale between').argParser(computeSize))
    .addOption(
      new Option('--suspend-timeout <seconds>', 'idle seconds until they sleep, never, or default').argParser(
        readSuspendTimeout,
      ),
    )
}

/** `neap projects …` */
export function projectsCommand(access: readonly Option[]): Command {
  const verbs = [listVerb(), getVerb(), createVerb(), updateVerb(), deleteVerb()]
  return noun('projects', 'Projects: each holds branches of one Postgres.', access, verbs)
}

const listVerb = () =>
  new Command('list')
    .description('List the projects.')
    .option('--search <text>', 'only those with this in their id or name')
    .action(
      verb(async ({ call, flags }: VerbSession<{ search?: string }>) => ({
        answer: await listProjects(call, flags.search),
        text: ({ projects }) => list(projects, COLUMNS, 'No projects.'),
      })),
    )

const getVerb = () =>
  new Command('get')
    .description('Show a project.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, project: find }: VerbSession<object>, named?: string) => ({
        answer: await call('GET /projects/:project_id', { params: await find({ named, how: HOW }) }),
        text: ({ project }) => card(project, DETAILS),
      })),
    )

interface NewProject extends Defaults {
  readonly pgVersion?: number
  readonly branch?: string
  readonly database?: string
  readonly role?: string
}

const createVerb = () =>
  waits(
    takesDefaults(
      new Command('create')
        .description('Create a project with its default branch, a role, a database and an endpoint.')
        .argument('[name]', 'its name; its id unless given')
        .addOption(new Option('--pg-version <version>', '15 to 18').argParser(wholeNumber(15, 18)))
        .option('--branch <name>', 'name of its default branch')
        .option('--database <name>', 'name of its database')
        .option('--role <name>', 'name of the role that owns the database'),
    ),
  ).action(
    verb(async ({ call, flags }: VerbSession<NewProject>, name?: string) => {
      const { pgVersion: pg_version, branch, database, role } = flags
      const project = {
        name,
        pg_version,
        branch: { name: branch, database_name: database, role_name: role },
        default_endpoint_settings: defaults(flags),
      }
      const answer = await call('POST /projects', { body: { project } })
      return { answer, text: (made) => card(made, MADE), refresh: () => branchNow(call, answer.branch) }
    }),
  )

interface Changes extends Defaults {
  readonly name?: string
  readonly branchTtl?: number
  readonly history?: number
}

const updateVerb = () =>
  takesDefaults(
    new Command('update')
      .description('Change a project; sizes and time-outs hold for endpoints that are made from then on.')
      .addArgument(OPTIONAL)
      .option('--name <name>', 'its new name')
      .addOption(
        new Option('--branch-ttl <duration>', 'new branches expire after 12h or 7d, unless told, or never').argParser(
          (text) => (text === 'never' ? 0 : seconds(text)),
        ),
      )
      .addOption(
        new Option(
          '--history <duration>',
          'for how long the past of its branches is kept: 12h or 14d, 35d at most',
        ).argParser(seconds),
      ),
  ).action(
    verb(async ({ call, flags, project: find }: VerbSession<Changes>, named?: string) => {
      const settings = flags.branchTtl === undefined ? undefined : { branch_ttl_seconds: flags.branchTtl }
      const changes = {
        name: flags.name,
        settings,
        history_retention_seconds: flags.history,
        default_endpoint_settings: defaults(flags),
      }
      if (Object.values(changes).every((value) => value === undefined))
        throw new UsageError('Say what to change; neap projects update --help lists what can be.')
      const params = await find({ named, how: HOW })
      return {
        answer: await call('PATCH /projects/:project_id', { params, body: { project: changes } }),
        text: ({ project }) => card(project, DETAILS),
      }
    }),
  )

const deleteVerb = () =>
  asks(
    new Command('delete')
      .description('Delete a project with all its branches and their data.')
      .argument('<project>', 'its id or name'),
  ).action(
    verb(async ({ call, flags, project: find }: VerbSession<object>, named: string) => {
      const params = await find({ named, how: HOW })
      await confirm(`Delete the project ${printable(named)} with all its branches and their data?`, flags)
      return {
        answer: await call('DELETE /projects/:project_id', { params }),
        text: ({ project }) => `Deleted the project ${printable(project.name)} (${project.id}).`,
      }
    }),
  )
