import { Command } from 'commander'
import { card } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { DETAILS, OPTIONAL } from './columns.ts'

export const getVerb = () =>
  new Command('get')
    .description('Show a branch.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, branch }: VerbSession<object>, asked?: string) => {
        const params = await branch(asked)
        const answer = await call('GET /projects/:project_id/branches/:branch_id', { params })
        const anonymized = answer.branch.anonymization_state
          ? await call('GET /projects/:project_id/branches/:branch_id/anonymized_status', { params })
          : undefined
        return { answer, text: (found) => card({ ...found, anonymized }, DETAILS) }
      }),
    )
