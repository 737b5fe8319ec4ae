import { Command } from 'commander'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { OPTIONAL } from './columns.ts'

export const suspendVerb = () =>
  waits(
    new Command('suspend')
      .description('Suspend the compute of an endpoint; open connections end, the next one wakes it.')
      .addArgument(OPTIONAL),
  ).action(
    verb(async ({ call, endpoint }: VerbSession<object>, asked?: string) => {
      const params = await endpoint(asked)
      return changed(call, await call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params }))
    }),
  )
