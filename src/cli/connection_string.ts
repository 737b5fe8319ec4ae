import { Command, type Option } from 'commander'
import { findDatabase } from './resolve.ts'
import { PROJECT, reaches, type VerbSession, verb } from './verb.ts'

interface Flags {
  readonly database?: string
  readonly role?: string
  readonly pooled?: boolean
  readonly passwordless?: boolean
}

/** `neap connection-string`: the URI for psql and drivers, password included. */
export function connectionStringCommand(access: readonly Option[]): Command {
  const command = new Command('connection-string')
    .description('Print what psql and drivers connect to a branch with, password included.')
    .argument('[branch]', 'its id or name; the default branch unless given')
    .option('-d, --database <name>', 'may be left out where there is only one')
    .option('-r, --role <name>', 'the owner of the database unless given')
    .option('--pooled', 'through the connection pooler')
    .option('--passwordless', 'without a password: you let its clients in by neap approve')
  return reaches(command, [...access, PROJECT]).action(
    verb(async ({ call, flags, branch }: VerbSession<Flags>, asked?: string) => {
      const params = await branch(asked)
      const { name, owner_name } = await findDatabase(call, params, flags.database)
      const query = {
        branch_id: params.branch_id,
        database_name: name,
        role_name: flags.role ?? owner_name,
        pooled: flags.pooled,
        passwordless: flags.passwordless,
      }
      return {
        answer: await call('GET /projects/:project_id/connection_uri', { params, query }),
        text: ({ uri }) => uri,
      }
    }),
  )
}
