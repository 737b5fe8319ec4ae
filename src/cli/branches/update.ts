import { Command, Option } from 'commander'
import { UsageError } from '../../errors.ts'
import { expiresAt, expiryOrNever } from '../values.ts'
import { type VerbSession, verb } from '../verb.ts'
import { changed } from './changed.ts'
import { REQUIRED } from './columns.ts'

interface Flags {
  readonly protect?: boolean
  readonly unprotect?: boolean
  readonly expires?: string
}

export const updateVerb = () =>
  new Command('update')
    .description('Protect a branch from deletion, or say when it is to be deleted.')
    .addArgument(REQUIRED)
    .option('--protect', 'protect it from deletion')
    .addOption(new Option('--unprotect', 'let it be deleted again').conflicts('protect'))
    .addOption(
      new Option('--expires <when>', 'when to delete it: 12h or 7d from now, a moment, or never').argParser(
        expiryOrNever,
      ),
    )
    .action(
      verb(async ({ call, flags, branch }: VerbSession<Flags>, asked: string) => {
        const isProtected = flags.protect ? true : flags.unprotect ? false : undefined
        const body = { branch: { protected: isProtected, expires_at: expiresAt(flags.expires) } }
        if (isProtected === undefined && flags.expires === undefined)
          throw new UsageError('Say what to change: --protect, --unprotect or --expires.')
        const params = await branch(asked)
        return changed(call, await call('PATCH /projects/:project_id/branches/:branch_id', { params, body }))
      }),
    )
