import { Command } from 'commander'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { type SettingFlags, sets, settings } from './settings.ts'

export const createVerb = () =>
  waits(
    sets(
      new Command('create')
        .description('Create the endpoint of a branch that has none.')
        .argument('<branch>', 'id or name of the branch that it is to serve'),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<SettingFlags>, asked: string) => {
      const { project_id, branch_id } = await branch(asked)
      const endpoint = { branch_id, type: 'read_write', ...settings(flags), disabled: flags.disable }
      return changed(
        call,
        await call('POST /projects/:project_id/endpoints', { params: { project_id }, body: { endpoint } }),
      )
    }),
  )
