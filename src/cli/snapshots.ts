import { Argument, Command, Option } from 'commander'
import { bytesText } from '../bytes.ts'
import type { ApiClient, ApiResponse } from '../client.ts'
import { UsageError } from '../errors.ts'
import { changed } from './branches/changed.ts'
import { underWay } from './columns.ts'
import { asks, confirm } from './confirm.ts'
import { branchId } from './resolve.ts'
import { card, type Columns, duration, list, moment, printable } from './table.ts'
import { expiresAt, expiry, expiryOrNever, pastMoment, type PastMoment, seconds, wholeNumber } from './values.ts'
import { noun, PROJECT, type VerbSession, verb, waits } from './verb.ts'
import type { ApiOperation } from './wait.ts'

type ApiSnapshot = ApiResponse<'GET /projects/:project_id/snapshots'>['snapshots'][number]

const COLUMNS: Columns<ApiSnapshot> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  OF: ({ source_branch_id }) => source_branch_id,
  AT: ({ lsn, timestamp }) => lsn ?? moment(timestamp),
  SIZE: ({ full_size }) => (full_size === undefined ? undefined : bytesText(full_size)),
  EXPIRES: ({ expires_at }) => moment(expires_at),
}

const DETAILS: Columns<{ snapshot: ApiSnapshot; operations?: readonly ApiOperation[] }> = {
  ...Object.fromEntries(
    Object.entries(COLUMNS).map(([title, text]) => [
      title,
      ({ snapshot }: { snapshot: ApiSnapshot }) => text(snapshot),
    ]),
  ),
  OPERATIONS: ({ operations = [] }) => underWay(operations),
}

const REQUIRED = new Argument('<snapshot>', 'its id or name')

interface Taken {
  readonly name?: string
  readonly at?: PastMoment
  readonly expires?: string
}

interface ChangedAttributes {
  readonly name?: string
  readonly expires?: string
}

interface Restored {
  readonly name?: string
  readonly target?: string
  readonly finalize?: boolean
}

/** `neap snapshots …`, also `neap snapshot …`. */
export function snapshotsCommand(access: readonly Option[]): Command {
  const about = 'Snapshots: what a branch had at a moment, kept until you remove it.'
  const verbs = [listVerb(), createVerb(), updateVerb(), restoreVerb(), finalizeVerb(), scheduleVerb(), deleteVerb()]
  return noun('snapshots', about, [...access, PROJECT], verbs).alias('snapshot')
}

const listVerb = () =>
  new Command('list').description('List the snapshots of a project, newest first.').action(
    verb(async ({ call, project }: VerbSession<object>) => ({
      answer: await call('GET /projects/:project_id/snapshots', { params: await project() }),
      text: ({ snapshots }) => list(snapshots, COLUMNS, 'No snapshots.'),
    })),
  )

const createVerb = () =>
  waits(
    new Command('create')
      .description('Take a snapshot of a branch, as it is now or was at a moment.')
      .argument('[branch]', 'its id or name; the default branch unless given')
      .option('--name <name>', 'its name; its id unless given')
      .addOption(new Option('--at <when>', 'as it was then: 30m or 2h ago, a moment, or an LSN').argParser(pastMoment))
      .addOption(
        new Option('--expires <when>', 'when to remove it: 12h or 7d from now, or a moment').argParser(expiry),
      ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<Taken>, asked?: string) => {
      const params = await branch(asked)
      const { name, at, expires: expires_at } = flags
      const query = { name, expires_at, ...at }
      return {
        answer: await call('POST /projects/:project_id/branches/:branch_id/snapshot', { params, query }),
        text: (made) => card(made, DETAILS),
      }
    }),
  )

const updateVerb = () =>
  new Command('update')
    .description('Rename a snapshot, or say when it is to be removed.')
    .addArgument(REQUIRED)
    .option('--name <name>', 'its new name')
    .addOption(
      new Option('--expires <when>', 'when to remove it: 12h or 7d from now, a moment, or never').argParser(
        expiryOrNever,
      ),
    )
    .action(
      verb(async ({ call, flags, project }: VerbSession<ChangedAttributes>, asked: string) => {
        const { name, expires } = flags
        if (name === undefined && expires === undefined)
          throw new UsageError('Say what to change: --name or --expires.')
        const params = await snapshotOf(call, await project(), asked)
        const body = { snapshot: { name, expires_at: expiresAt(expires) } }
        return {
          answer: await call('PATCH /projects/:project_id/snapshots/:snapshot_id', { params, body }),
          text: (made) => card(made, DETAILS),
        }
      }),
    )

const restoreVerb = () =>
  waits(
    asks(
      new Command('restore')
        .description('Make a branch of a snapshot, or with --finalize give a branch its data; its endpoint stays.')
        .addArgument(REQUIRED)
        .option('--name <name>', 'of the new branch; with --finalize of the one that keeps the old data')
        .option('--target <branch>', 'the branch to replace; the one that the snapshot was taken of unless given')
        .option('--finalize', 'replace it at once, not after a look (neap snapshots finalize)'),
    ),
  ).action(
    verb(async ({ call, flags, project }: VerbSession<Restored>, asked: string) => {
      const params = await snapshotOf(call, await project(), asked)
      const { name, target, finalize: finalize_restore } = flags
      const target_branch_id = target && (await branchId(call, params.project_id, target))
      if (finalize_restore)
        await confirm(`Give ${printable(target ?? 'its branch')} the data of ${printable(asked)}?`, flags)
      const body = { name, target_branch_id, finalize_restore }
      return changed(call, await call('POST /projects/:project_id/snapshots/:snapshot_id/restore', { params, body }))
    }),
  )

const finalizeVerb = () =>
  waits(
    asks(
      new Command('finalize')
        .description('Give the data of a branch made by restore to the branch that it was made for.')
        .argument('<branch>', 'its id or name')
        .option('--name <name>', 'of the branch that keeps the old data'),
    ),
  ).action(
    verb(async ({ call, flags, branch }: VerbSession<Restored>, asked: string) => {
      const params = await branch(asked)
      await confirm(`Give the data of ${printable(asked)} to the branch that it was made for?`, flags)
      const body = { name: flags.name }
      return {
        answer: await call('POST /projects/:project_id/branches/:branch_id/finalize_restore', { params, body }),
        text: ({ operations }) => underWay(operations) ?? `The branch has the data of ${printable(asked)}.`,
      }
    }),
  )

interface Rhythm {
  readonly every?: ScheduleItem['frequency']
  readonly hour?: number
  readonly day?: number
  readonly month?: number
  readonly keep?: number
  readonly none?: boolean
}

type ScheduleItem = ApiResponse<'GET /projects/:project_id/branches/:branch_id/backup_schedule'>['schedule'][number]

const RHYTHMS: Columns<ScheduleItem> = {
  EVERY: ({ frequency }) => frequency,
  HOUR: ({ hour }) => hour?.toString(),
  DAY: ({ day }) => day?.toString(),
  MONTH: ({ month }) => month?.toString(),
  KEPT: ({ retention_seconds }) => (retention_seconds ? duration(retention_seconds * 1000) : 'for ever'),
}

const scheduleVerb = () =>
  new Command('schedule')
    .description('Show when snapshots of a branch are taken by themselves, or say when.')
    .argument('[branch]', 'its id or name; the default branch unless given')
    .addOption(
      new Option('--every <rhythm>', 'take one').choices(['hourly', 'daily', 'weekly', 'monthly', 'yearly'] as const),
    )
    .addOption(new Option('--hour <hour>', 'at this hour, in UTC').argParser(wholeNumber(0, 23)))
    .addOption(
      new Option('--day <day>', 'on this day: of the week, Monday is 1, or month').argParser(wholeNumber(1, 31)),
    )
    .addOption(new Option('--month <month>', 'in this month').argParser(wholeNumber(1, 12)))
    .addOption(new Option('--keep <duration>', 'keep each so long: 12h or 7d').argParser(seconds))
    .addOption(new Option('--none', 'take no more').conflicts('every'))
    .action(
      verb(async ({ call, flags, branch }: VerbSession<Rhythm>, asked?: string) => {
        const params = await branch(asked)
        const { every: frequency, hour, day, month, keep: retention_seconds, none } = flags
        const isChange = frequency !== undefined || none
        if (!isChange && [hour, day, month, retention_seconds].some((each) => each !== undefined))
          throw new UsageError('Say how often with --every.')
        const item = frequency && { frequency, hour, day, month, retention_seconds }
        return {
          answer: isChange
            ? await call('PUT /projects/:project_id/branches/:branch_id/backup_schedule', {
                params,
                body: { schedule: item ? [item] : [] },
              })
            : await call('GET /projects/:project_id/branches/:branch_id/backup_schedule', { params }),
          text: ({ schedule }) => list(schedule, RHYTHMS, 'No schedule.'),
        }
      }),
    )

const deleteVerb = () =>
  waits(
    asks(
      new Command('delete').description('Remove a snapshot; branches that were made of it stay.').addArgument(REQUIRED),
    ),
  ).action(
    verb(async ({ call, flags, project }: VerbSession<object>, asked: string) => {
      const params = await snapshotOf(call, await project(), asked)
      await confirm(`Remove the snapshot ${printable(asked)}?`, flags)
      return {
        answer: await call('DELETE /projects/:project_id/snapshots/:snapshot_id', { params }),
        text: () => `Removed the snapshot ${printable(asked)}.`,
      }
    }),
  )

/** The snapshot with an id or name. Errors: UsageError. */
async function snapshotOf(
  call: ApiClient,
  { project_id }: { readonly project_id: string },
  asked: string,
): Promise<{ project_id: string; snapshot_id: string }> {
  const { snapshots } = await call('GET /projects/:project_id/snapshots', { params: { project_id } })
  const fitting = snapshots.filter(({ id, name }) => id === asked || name === asked)
  const [only, ...more] = fitting
  if (only && more.length === 0) return { project_id, snapshot_id: only.id }
  throw new UsageError(
    only
      ? `Several snapshots are called ${printable(asked)}; give an id: ${fitting.map(({ id }) => id).join(', ')}`
      : `There is no snapshot ${printable(asked)} in the project ${project_id}; neap snapshots list shows them.`,
  )
}
