import { Argument, Command, type Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { asks, confirm } from './confirm.ts'
import { card, type Columns, moment } from './table.ts'
import { reaches, type VerbSession, verb } from './verb.ts'

type Login = ApiResponse<'GET /passwordless_logins/:code'>['passwordless_login']

const DETAILS: Columns<Login> = {
  ENDPOINT: ({ endpoint_id }) => endpoint_id,
  PROJECT: ({ project_name, project_id }) => `${project_name} (${project_id})`,
  BRANCH: ({ branch_name }) => branch_name,
  ROLE: ({ role_name }) => role_name,
  DATABASE: ({ database_name }) => database_name,
  'CLIENT ADDRESS': ({ client_address }) => client_address,
  'CALLS ITSELF': ({ application_name }) => application_name || undefined,
  SINCE: ({ created_at }) => moment(created_at),
  STATUS: ({ status }) => status,
}

interface Flags {
  readonly refuse?: boolean
}

/** `neap approve`: lets a login without a password in, or refuses it. */
export function approveCommand(access: readonly Option[]): Command {
  const command = new Command('approve')
    .summary('Let in a client that gave no password and shows this code.')
    .description(
      'Let in, once, a client that gave no password and shows this code. Approve only a login that you began yourself.',
    )
    .addArgument(new Argument('<code>', 'as the client shows it, such as 7QDK-M2XN'))
    .option('--refuse', 'refuse the login instead')
  return asks(reaches(command, access)).action(
    verb(async ({ call, flags }: VerbSession<Flags>, code: string) => {
      const params = { code }
      const { passwordless_login: login } = await call('GET /passwordless_logins/:code', { params })
      if (flags.refuse) return shown(await call('POST /passwordless_logins/:code/refuse', { params }))
      if (!flags.yes && process.stdin.isTTY) process.stderr.write(`${card(login, DETAILS)}\n`)
      await confirm('Did you begin this login yourself? It lets that client in.', flags)
      return shown(await call('POST /passwordless_logins/:code/approve', { params }))
    }),
  )
}

const shown = (answer: { passwordless_login: Login }) => ({
  answer,
  text: () => card(answer.passwordless_login, DETAILS),
})
