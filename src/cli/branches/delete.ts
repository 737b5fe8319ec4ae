import { Command } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { moment, printable } from '../table.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { REQUIRED } from './columns.ts'

export const deleteVerb = () =>
  waits(
    asks(
      new Command('delete')
        .description('Delete a branch with its endpoint. Bring it back: neap branches recover')
        .option('--final', 'remove its data at once: it cannot be recovered')
        .addArgument(REQUIRED),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<{ readonly final?: boolean }>, asked: string) => {
      const params = await branch(asked)
      const { final: hard_delete = false } = flags
      const what = `the branch ${printable(asked)} with its endpoint${hard_delete ? ' and its data, for good' : ''}`
      await confirm(`Delete ${what}?`, flags)
      return {
        answer: await call('DELETE /projects/:project_id/branches/:branch_id', { params, query: { hard_delete } }),
        text: ({ branch: { id, name, recovery } }) =>
          `Deleted the branch ${printable(name)} (${id}).${recovery ? untilWhen(recovery) : ''}`,
      }
    }),
  )

const untilWhen = ({ recoverable_until }: { readonly recoverable_until: string }): string =>
  ` Until ${moment(recoverable_until)} you can bring it back: neap branches recover`
