import { Argument, Command, type Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { underWay } from './columns.ts'
import { asks, confirm } from './confirm.ts'
import { card, type Columns, list, moment, printable } from './table.ts'
import { BRANCH, noun, PROJECT, type VerbSession, verb, waits } from './verb.ts'

type Roles = ApiResponse<'GET /projects/:project_id/branches/:branch_id/roles'>
type Made = ApiResponse<'POST /projects/:project_id/branches/:branch_id/roles'>

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
    'Roles of a branch, as which clients connect.',
    [...access, PROJECT, BRANCH],
    [
      new Command('list').description('List the roles of a branch.').action(
        verb(async ({ call, branch }: VerbSession<object>) => ({
          answer: await call('GET /projects/:project_id/branches/:branch_id/roles', { params: await branch() }),
          text: ({ roles }) => list(roles, COLUMNS, 'No roles.'),
        })),
      ),
      waits(
        new Command('create')
          .description('Create a role and print its password.')
          .addArgument(NAME)
          .option('--no-login', 'one that others are members of; it has no password'),
      ).action(
        verb(async ({ call, flags, branch }: VerbSession<{ login: boolean }>, name: string) => ({
          answer: await call('POST /projects/:project_id/branches/:branch_id/roles', {
            params: await branch(),
            body: { role: { name, no_login: flags.login ? undefined : true } },
          }),
          text: (made) => card(made, MADE),
        })),
      ),
      new Command('reveal-password')
        .description('Print the password of a role.')
        .addArgument(NAME)
        .action(
          verb(async ({ call, branch }: VerbSession<object>, role_name: string) => ({
            answer: await call('GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password', {
              params: { ...(await branch()), role_name },
            }),
            text: ({ password }) => password,
          })),
        ),
      waits(
        new Command('reset-password').description('Give a role a new password and print it.').addArgument(NAME),
      ).action(
        verb(async ({ call, branch }: VerbSession<object>, role_name: string) => ({
          answer: await call('POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password', {
            params: { ...(await branch()), role_name },
          }),
          text: (changed) => card(changed, MADE),
        })),
      ),
      waits(
        asks(
          new Command('delete')
            .description("Delete a role, for good; what it owns in a database goes to that database's owner.")
            .addArgument(NAME),
        ),
      ).action(
        verb(async ({ call, flags, branch }: VerbSession<object>, role_name: string) => {
          const params = { ...(await branch()), role_name }
          await confirm(`Delete the role ${printable(role_name)}?`, flags)
          return {
            answer: await call('DELETE /projects/:project_id/branches/:branch_id/roles/:role_name', { params }),
            text: ({ role }) => `Deleted the role ${printable(role.name)}.`,
          }
        }),
      ),
    ],
  )
}
