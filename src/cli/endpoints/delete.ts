import { Command } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { type VerbSession, verb } from '../verb.ts'
import { REQUIRED } from './columns.ts'

export const deleteVerb = () =>
  asks(
    new Command('delete')
      .description('Delete an endpoint, for good; open connections end, the branch keeps its data.')
      .addArgument(REQUIRED),
  ).action(
    verb(async ({ call, flags, endpoint }: VerbSession<object>, asked: string) => {
      const params = await endpoint(asked)
      await confirm(`Delete the endpoint ${asked}? Its connections end, and its host name is gone for good.`, flags)
      return {
        answer: await call('DELETE /projects/:project_id/endpoints/:endpoint_id', { params }),
        text: ({ endpoint: gone }) => `Deleted the endpoint ${gone.id} of the branch ${gone.branch_id}.`,
      }
    }),
  )
