import { Command } from 'commander'
import { findDatabase } from '../resolve.ts'
import { type VerbSession, verb } from '../verb.ts'
import { OPTIONAL } from './columns.ts'

export const schemaVerb = () =>
  new Command('schema')
    .description('Print the schema of a database, as pg_dump does; wakes the compute if it sleeps.')
    .addArgument(OPTIONAL)
    .option('-d, --database <name>', 'may be left out where there is only one')
    .action(
      verb(async ({ call, flags, branch }: VerbSession<{ database?: string }>, asked?: string) => {
        const params = await branch(asked)
        const { name: db_name } = await findDatabase(call, params, flags.database)
        return {
          answer: await call('GET /projects/:project_id/branches/:branch_id/schema', { params, query: { db_name } }),
          text: ({ sql }) => sql.trimEnd(),
        }
      }),
    )
