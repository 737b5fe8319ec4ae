import { Command } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { printable } from '../table.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

export const resetVerb = () =>
  waits(
    asks(
      new Command('reset')
        .description('Give a branch the data that its parent has now; its own is lost, its endpoint stays.')
        .addArgument(REQUIRED),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<object>, asked: string) => {
      const params = await branch(asked)
      await confirm(`Lose the data of the branch ${printable(asked)} and take that of its parent?`, flags)
      return changed(call, await call('POST /projects/:project_id/branches/:branch_id/reset_to_parent', { params }))
    }),
  )
