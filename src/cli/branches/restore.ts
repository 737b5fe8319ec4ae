import { Command } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { branchId } from '../resolve.ts'
import { printable } from '../table.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

export const restoreVerb = () =>
  waits(
    asks(
      new Command('restore')
        .description('Give a branch the data that another branch has now; its endpoint stays.')
        .addArgument(REQUIRED)
        .argument('<source>', 'id or name of the branch to take the data from')
        .option('--preserve-under-name <name>', 'keep the data that it had as a branch of this name'),
    ),
  ).action(
    verb(
      async ({ call, flags, branch }: VerbSession<{ preserveUnderName?: string }>, asked: string, source: string) => {
        const params = await branch(asked)
        const source_branch_id = await branchId(call, params.project_id, source)
        const preserve_under_name = flags.preserveUnderName
        if (preserve_under_name === undefined)
          await confirm(`Lose the data of the branch ${printable(asked)} and take that of ${printable(source)}?`, flags)
        const body = { source_branch_id, preserve_under_name }
        return changed(call, await call('POST /projects/:project_id/branches/:branch_id/restore', { params, body }))
      },
    ),
  )
