import { Command } from 'commander'
import { UsageError } from '../../errors.ts'
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
        .addArgument(REQUIRED)
        .option(
          '--preserve-under-name <name>',
          'keep the data that it had, and its children, as a branch of this name',
        ),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<{ preserveUnderName?: string }>, asked: string) => {
      const params = await branch(asked)
      const preserve_under_name = flags.preserveUnderName
      if (preserve_under_name !== undefined) {
        const { branch: child } = await call('GET /projects/:project_id/branches/:branch_id', { params })
        if (child.parent_id === undefined) throw new UsageError(`The branch ${printable(asked)} has no parent.`)
        const body = { source_branch_id: child.parent_id, preserve_under_name }
        return changed(call, await call('POST /projects/:project_id/branches/:branch_id/restore', { params, body }))
      }
      await confirm(`Lose the data of the branch ${printable(asked)} and take that of its parent?`, flags)
      return changed(call, await call('POST /projects/:project_id/branches/:branch_id/reset_to_parent', { params }))
    }),
  )
