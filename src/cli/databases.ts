import { Argument, Command, type Option } from 'commander'
import type { ApiResponse, ApiClient } from '../client.ts'
import { UsageError } from '../errors.ts'
import { underWay } from './columns.ts'
import { asks, confirm } from './confirm.ts'
import { card, type Columns, list, moment, printable } from './table.ts'
import { BRANCH, noun, PROJECT, type VerbSession, verb, waits } from './verb.ts'

type Databases = ApiResponse<'GET /projects/:project_id/branches/:branch_id/databases'>
type Made = ApiResponse<'POST /projects/:project_id/branches/:branch_id/databases'>

const COLUMNS: Columns<Databases['databases'][number]> = {
  NAME: ({ name }) => name,
  OWNER: ({ owner_name }) => owner_name,
  CREATED: ({ created_at }) => moment(created_at),
}

const MADE: Columns<Made> = {
  NAME: ({ database }) => database.name,
  OWNER: ({ database }) => database.owner_name,
  OPERATIONS: ({ operations }) => underWay(operations),
}

const NAME = new Argument('<database>', 'its name')

/** `neap databases …` */
export function databasesCommand(access: readonly Option[]): Command {
  const verbs = [listVerb(), createVerb(), updateVerb(), deleteVerb()]
  return noun('databases', 'Databases of a branch.', [...access, PROJECT, BRANCH], verbs)
}

const listVerb = () =>
  new Command('list').description('List the databases of a branch.').action(
    verb(async ({ call, branch }: VerbSession<object>) => ({
      answer: await call('GET /projects/:project_id/branches/:branch_id/databases', { params: await branch() }),
      text: ({ databases }) => list(databases, COLUMNS, 'No databases.'),
    })),
  )

const createVerb = () =>
  waits(
    new Command('create')
      .description('Create a database.')
      .addArgument(NAME)
      .option('--owner <role>', 'the role that owns it; may be left out where there is only one'),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<{ owner?: string }>, name: string) => {
      const params = await branch()
      const owner_name = flags.owner ?? (await onlyRole(call, params))
      const body = { database: { name, owner_name } }
      return {
        answer: await call('POST /projects/:project_id/branches/:branch_id/databases', { params, body }),
        text: (made) => card(made, MADE),
      }
    }),
  )

const updateVerb = () =>
  waits(
    new Command('update')
      .description('Rename a database, which ends its connections, or give it another owner.')
      .addArgument(NAME)
      .option('--name <name>', 'its new name')
      .option('--owner <role>', 'its new owner'),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<{ name?: string; owner?: string }>, database_name: string) => {
      const database = { name: flags.name, owner_name: flags.owner }
      if (!flags.name && !flags.owner) throw new UsageError('Say what to change: --name, --owner or both.')
      const params = { ...(await branch()), database_name }
      return {
        answer: await call('PATCH /projects/:project_id/branches/:branch_id/databases/:database_name', {
          params,
          body: { database },
        }),
        text: (changed) => card(changed, MADE),
      }
    }),
  )

const deleteVerb = () =>
  waits(
    asks(new Command('delete').description('Delete a database with all that is in it, for good.').addArgument(NAME)),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<object>, database_name: string) => {
      const params = { ...(await branch()), database_name }
      await confirm(`Delete the database ${printable(database_name)} with all that is in it?`, flags)
      return {
        answer: await call('DELETE /projects/:project_id/branches/:branch_id/databases/:database_name', { params }),
        text: ({ database }) => `Deleted the database ${printable(database.name)}.`,
      }
    }),
  )

async function onlyRole(call: ApiClient, params: { project_id: string; branch_id: string }): Promise<string> {
  const { roles } = await call('GET /projects/:project_id/branches/:branch_id/roles', { params })
  const [only, ...more] = roles
  if (only && more.length === 0) return only.name
  const there = roles.map(({ name }) => printable(name)).join(', ') || 'none'
  throw new UsageError(`Say which role owns it with --owner <role>. There are: ${there}`)
}
