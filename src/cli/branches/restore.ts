import { Command, Option } from 'commander'
import { asks, confirm } from '../confirm.ts'
import { branchId } from '../resolve.ts'
import { printable } from '../table.ts'
import { pastMoment, type PastMoment } from '../values.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

interface Flags {
  readonly preserveUnderName?: string
  readonly at?: PastMoment
}

export const restoreVerb = () =>
  waits(
    asks(
      new Command('restore')
        .description(
          'Give a branch the data that another has now, or that it or another had at a moment; its endpoint stays.',
        )
        .addArgument(REQUIRED)
        .argument('<source>', 'id or name of the branch to take the data from')
        .addOption(
          new Option('--at <when>', 'as it was then: 30m or 2h ago, a moment, or an LSN').argParser(pastMoment),
        )
        .option('--preserve-under-name <name>', 'keep the data that it had as a branch of this name'),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<Flags>, asked: string, source: string) => {
      const params = await branch(asked)
      const source_branch_id = await branchId(call, params.project_id, source)
      const preserve_under_name = flags.preserveUnderName
      if (preserve_under_name === undefined)
        await confirm(`Lose the data of the branch ${printable(asked)} and take that of ${printable(source)}?`, flags)
      const moment =
        flags.at && ('lsn' in flags.at ? { source_lsn: flags.at.lsn } : { source_timestamp: flags.at.timestamp })
      const body = { source_branch_id, preserve_under_name, ...moment }
      return changed(call, await call('POST /projects/:project_id/branches/:branch_id/restore', { params, body }))
    }),
  )
