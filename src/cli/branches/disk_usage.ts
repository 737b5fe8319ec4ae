import { Command } from 'commander'
import { bytesText } from '../../bytes.ts'
import type { ApiResponse } from '../../client.ts'
import { card, type Columns, moment } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { OPTIONAL } from './columns.ts'

type Shown = ApiResponse<'GET /projects/:project_id/branches/:branch_id/disk_usage'>

const size = (bytes: number | undefined): string | undefined => (bytes === undefined ? undefined : bytesText(bytes))

const LINES: Columns<Shown> = {
  'CLONED BY': ({ disk_usage: used }) => used.clone_mode,
  SIZE: ({ disk_usage: used }) => size(used.apparent_bytes) ?? 'not measured yet',
  'ON DISK': ({ disk_usage: used }) => size(used.real_bytes),
  'DELETION FREES': ({ disk_usage: used }) => size(used.deletion.frees_bytes),
  'OF IT HISTORY': ({ disk_usage: used }) => size(used.history_bytes),
  SNAPSHOTS: ({ disk_usage: { snapshots } }) =>
    snapshots.count === 0 ? undefined : [snapshots.count, size(snapshots.own_bytes)].filter(Boolean).join(', '),
  MEASURED: ({ disk_usage: used }) => moment(used.measured_at),
}

export const diskUsageVerb = () =>
  new Command('disk-usage')
    .description('Show what a branch takes, and what its deletion would free.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, branch }: VerbSession<object>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/branches/:branch_id/disk_usage', { params: await branch(asked) }),
        text: (found) => card(found, LINES),
      })),
    )
