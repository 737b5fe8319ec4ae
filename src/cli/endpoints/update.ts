import { Command, Option } from 'commander'
import type { ApiClient } from '../../client.ts'
import { UsageError } from '../../errors.ts'
import { branchId } from '../resolve.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { changed } from './changed.ts'
import { OPTIONAL } from './columns.ts'
import { type SettingFlags, sets, settings } from './settings.ts'

interface Flags extends SettingFlags {
  readonly moveTo?: string
  readonly enable?: boolean
}

export const updateVerb = () =>
  waits(
    sets(new Command('update').description('Change an endpoint.').addArgument(OPTIONAL))
      .addOption(new Option('--enable', 'let connections in again').conflicts('disable'))
      .option('--move-to <branch>', 'id or name of the branch to serve instead; it must have no endpoint'),
  ).action(
    verb(async ({ call, flags, endpoint }: VerbSession<Flags>, asked?: string) => {
      const params = await endpoint(asked)
      const body = {
        ...settings(flags),
        settings: flags.pgSetting && { pg_settings: await merged(call, params, flags.pgSetting) },
        disabled: flags.disable ? true : flags.enable ? false : undefined,
        branch_id: flags.moveTo && (await branchId(call, params.project_id, flags.moveTo)),
      }
      if (Object.values(body).every((value) => value === undefined))
        throw new UsageError('Say what to change; neap endpoints update --help lists what can be.')
      return changed(
        call,
        await call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params, body: { endpoint: body } }),
      )
    }),
  )

/** The API replaces all settings of an endpoint at once: existing ones are kept, except those given an empty value. */
async function merged(
  call: ApiClient,
  params: { project_id: string; endpoint_id: string },
  asked: Record<string, string>,
): Promise<Record<string, string>> {
  const { endpoint } = await call('GET /projects/:project_id/endpoints/:endpoint_id', { params })
  const all = Object.entries({ ...endpoint.settings.pg_settings, ...asked })
  return Object.fromEntries(all.filter(([, value]) => value !== ''))
}
