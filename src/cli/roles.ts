import { Argument, Command, type Option } from 'commander'
import type { Answer } from '../client.ts'
import { underWay } from './columns.ts'
import { card, type Columns, list, moment } from './table.ts'
import { BRANCH, noun, PROJECT, type Session, verb, waits } from './verb.ts'

type Roles = Answer<'GET /projects/:project_id/branches/:branch_id/roles'>
type Made = Answer<'POST /projects/:project_id/branches/:branch_id/roles'>

const COLUMNS: Columns<Roles['roles'][number]> = {
  NAME: ({ name }) => name,
  CREATED: ({ created_at }) => moment(created_at),
  UPDATED: ({ updated_at }) => moment(updated_at),
}

const MADE: Columns<Made> = {
  NAME: ({ role }) => role.name,
  PASSWORD: ({ role }) => role.password,
  OPERATIONS: ({ operations }) => underWay(operations),
}

const NAME = new Argument('<role>', 'its name')

/** `neap roles …` */
export function rolesCommand(access: readonly Option[]): Command {
  return noun(
    'roles',
    'Roles of a branch: who may connect.',
    [...access, PROJECT, BRANCH],
    [
      new Command('list').description('List the roles of a branch.').action(
        verb(async ({ call, branch }: Session<object>) => ({
          answer: await call('GET /projects/:project_id/branches/:branch_id/roles', { params: await branch() }),
          text: ({ roles }) => list(roles, COLUMNS, 'No roles.'),
        })),
      ),
      waits(new Command('create').description('Create a role and print its password.').addArgument(NAME)).action(
        verb(async ({ call, branch }: Session<object>, name: string) => ({
          answer: await call('POST /projects/:project_id/branches/:branch_id/roles', {
            params: await branch(),
            body: { role: { name } },
          }),
          text: (made) => card(made, MADE),
        })),
      ),
    ],
  )
}
