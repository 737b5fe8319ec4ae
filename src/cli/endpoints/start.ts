import { Command } from 'commander'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { OPTIONAL } from './columns.ts'

export const startVerb = () =>
  waits(
    new Command('start')
      .description('Start the compute of an endpoint, before a connection does.')
      .addArgument(OPTIONAL),
  ).action(
    verb(async ({ call, endpoint }: VerbSession<object>, asked?: string) => {
      const params = await endpoint(asked)
      return changed(call, await call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params }))
    }),
  )
