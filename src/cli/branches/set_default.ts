import { Command } from 'commander'
import { type VerbSession, verb } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

export const setDefaultVerb = () =>
  new Command('set-default')
    .description('Make a branch the default one of its project.')
    .addArgument(REQUIRED)
    .action(
      verb(async ({ call, branch }: VerbSession<object>, asked: string) => {
        const params = await branch(asked)
        return changed(call, await call('POST /projects/:project_id/branches/:branch_id/set_as_default', { params }))
      }),
    )
