import { Command } from 'commander'
import { card } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { DETAILS, OPTIONAL } from './columns.ts'

export const getVerb = () =>
  new Command('get')
    .description('Show an endpoint.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, endpoint }: VerbSession<object>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/endpoints/:endpoint_id', { params: await endpoint(asked) }),
        text: (found) => card(found, DETAILS),
      })),
    )
