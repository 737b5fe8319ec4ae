import { Command } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { printable } from '../table.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { REQUIRED } from './columns.ts'

export const deleteVerb = () =>
  waits(
    asks(
      new Command('delete')
        .description('Delete a branch with its endpoint and its data, for good.')
        .addArgument(REQUIRED),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<object>, asked: string) => {
      const params = await branch(asked)
      await confirm(`Delete the branch ${printable(asked)} with its endpoint and its data?`, flags)
      return {
        answer: await call('DELETE /projects/:project_id/branches/:branch_id', { params }),
        text: ({ branch: gone }) => `Deleted the branch ${printable(gone.name)} (${gone.id}).`,
      }
    }),
  )
