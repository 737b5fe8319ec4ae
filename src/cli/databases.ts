import { Argument, Command, type Option } from 'commander'
import type { Answer, Client } from '../client.ts'
import { UsageError } from '../errors.ts'
import { underWay } from './columns.ts'
import { card, type Columns, list, moment, printable } from './table.ts'
import { BRANCH, noun, PROJECT, type Session, verb, waits } from './verb.ts'

type Databases = Answer<'GET /projects/:project_id/branches/:branch_id/databases'>
type Made = Answer<'POST /projects/:project_id/branches/:branch_id/databases'>

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
  return noun(
    'databases',
    'Databases of a branch.',
    [...access, PROJECT, BRANCH],
    [
      new Command('list').description('List the databases of a branch.').action(
        verb(async ({ call, branch }: Session<object>) => ({
          answer: await call('GET /projects/:project_id/branches/:branch_id/databases', { params: await branch() }),
          text: ({ databases }) => list(databases, COLUMNS, 'No databases.'),
        })),
      ),
      waits(
        new Command('create')
          .description('Create a database.')
          .addArgument(NAME)
          .option('--owner <role>', 'the role that owns it; may be left out where there is only one'),
      ).action(
        verb(async ({ call, flags, branch }: Session<{ owner?: string }>, name: string) => {
          const params = await branch()
          const owner_name = flags.owner ?? (await onlyRole(call, params))
          const body = { database: { name, owner_name } }
          return {
            answer: await call('POST /projects/:project_id/branches/:branch_id/databases', { params, body }),
            text: (made) => card(made, MADE),
          }
        }),
      ),
    ],
  )
}

async function onlyRole(call: Client, params: { project_id: string; branch_id: string }): Promise<string> {
  const { roles } = await call('GET /projects/:project_id/branches/:branch_id/roles', { params })
  const [only, ...more] = roles
  if (only && more.length === 0) return only.name
  const there = roles.map(({ name }) => printable(name)).join(', ') || 'none'
  throw new UsageError(`Say which role owns it with --owner <role>. There are: ${there}`)
}
