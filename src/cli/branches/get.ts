import { Command } from 'commander'
import { card } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { DETAILS, OPTIONAL } from './columns.ts'

export const getVerb = () =>
  new Command('get')
    .description('Show a branch.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, branch }: VerbSession<object>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/branches/:branch_id', { params: await branch(asked) }),
        text: (found) => card(found, DETAILS),
      })),
    )
