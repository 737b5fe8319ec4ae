import { Command } from 'commander'
import { type VerbSession, verb } from '../verb.ts'
import { changed } from './changed.ts'
import { nonEmpty } from '../values.ts'
import { REQUIRED } from './columns.ts'

export const renameVerb = () =>
  new Command('rename')
    .description('Give a branch another name.')
    .addArgument(REQUIRED)
    .argument('<name>', 'its new name', nonEmpty)
    .action(
      verb(async ({ call, branch }: VerbSession<object>, asked: string, name: string) => {
        const params = await branch(asked)
        const body = { branch: { name } }
        return changed(call, await call('PATCH /projects/:project_id/branches/:branch_id', { params, body }))
      }),
    )
