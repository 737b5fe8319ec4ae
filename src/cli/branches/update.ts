import { Command, Option } from 'commander'
import { UsageError } from '../../errors.ts'
import { expiresAt, expiryOrNever, seconds } from '../values.ts'
import { type VerbSession, verb } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

interface Flags {
  readonly protect?: boolean
  readonly unprotect?: boolean
  readonly expires?: string
  readonly history?: number | 'project'
}

export const updateVerb = () =>
  new Command('update')
    .description(
      'Protect a branch from deletion, or say when it is to be deleted, and for how long its history is kept.',
    )
    .addArgument(REQUIRED)
    .option('--protect', 'protect it from deletion')
    .addOption(new Option('--unprotect', 'let it be deleted again').conflicts('protect'))
    .addOption(
      new Option('--expires <when>', 'when to delete it: 12h or 7d from now, a moment, or never').argParser(
        expiryOrNever,
      ),
    )
    .addOption(
      new Option(
        '--history <duration>',
        'for how long its past is kept: 12h or 14d, 35d at most, or project: as for all of its project',
      ).argParser((text) => (text === 'project' ? text : seconds(text))),
    )
    .action(
      verb(async ({ call, flags, branch }: VerbSession<Flags>, asked: string) => {
        const isProtected = flags.protect ? true : flags.unprotect ? false : undefined
        const history_retention_seconds = flags.history === 'project' ? null : flags.history
        const expires_at = expiresAt(flags.expires)
        const body = { branch: { protected: isProtected, expires_at, history_retention_seconds } }
        if (Object.values(body.branch).every((value) => value === undefined))
          throw new UsageError('Say what to change: --protect, --unprotect, --expires or --history.')
        const params = await branch(asked)
        return changed(call, await call('PATCH /projects/:project_id/branches/:branch_id', { params, body }))
      }),
    )
