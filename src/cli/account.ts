import { Command, InvalidArgumentError, Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { byteSize } from './bytes.ts'
import { type Columns, card } from './table.ts'
import { wholeNumber } from './values.ts'
import { noun, type VerbSession, verb } from './verb.ts'

type ApiAccount = ApiResponse<'GET /account'>['account']
type Quota = keyof ApiAccount['quota']

const MAX_LIMIT = 1_000_000

/** "12 of 100 s", or "12 s" where there is no limit. */
const use = (quota: Quota, unit: string) => (account: ApiAccount) => {
  const most = account.quota[quota]
  return most === 0 ? `${account.used[quota]} ${unit}` : `${account.used[quota]} of ${most} ${unit}`
}

const COLUMNS: Columns<ApiAccount> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  PLAN: ({ plan }) => plan,
  PROJECTS: ({ projects, projects_limit }) => `${projects} of ${projects_limit}`,
  'BRANCHES OF A PROJECT': ({ branches_limit }) => `at most ${branches_limit}`,
  'COMPUTES RAN': use('active_time_seconds', 's'),
  'CU-SECONDS': use('compute_time_seconds', 'CU-s'),
  WRITTEN: use('written_data_bytes', 'bytes'),
  'SENT TO CLIENTS': use('data_transfer_bytes', 'bytes'),
  'USED UP': ({ quota_exceeded }) => quota_exceeded,
}

const ORGANIZATION = new Option('--organization <id>', 'another organization than the first, on this machine')

interface Organization {
  readonly organization?: string
}

interface Changes extends Organization {
  readonly plan?: 'free' | 'paid' | 'default'
  readonly projectsLimit?: Limit
  readonly branchesLimit?: Limit
  readonly activeTime?: number
  readonly computeTime?: number
  readonly writtenData?: number
  readonly dataTransfer?: number
}

type Limit = number | 'default'

/** Reads a whole number from 1 on, or `default`. */
const limit = (text: string): Limit => (text === 'default' ? text : wholeNumber(1, MAX_LIMIT)(text))

const orNull = <T>(value: T | 'default'): T | null => (value === 'default' ? null : value)

const SECONDS = new Map(Object.entries({ '': 1, m: 60, h: 3600, d: 86_400 }))

/** Reads a time such as `90` or `10h`; `none` is 0. */
function seconds(text: string): number {
  if (text === 'none') return 0
  const [, count, unit = ''] = /^(\d{1,12})([a-z]?)$/.exec(text) ?? []
  const factor = SECONDS.get(unit)
  if (count === undefined || factor === undefined)
    throw new InvalidArgumentError('It takes seconds, a time like 10h, or none.')
  return Number(count) * factor
}

/** Reads a size such as `5G`; `none` is 0. */
const bytes = (text: string): number => (text === 'none' ? 0 : byteSize(text))

/** `neap account …` */
export function accountCommand(access: readonly Option[]): Command {
  return noun('account', 'The account: its plan, its limits and its quotas of the month.', access, [
    new Command('get')
      .description('Show the plan and the limits, and what is used of them this month.')
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Organization>) => ({
          answer: await call('GET /account', {}, { organization: flags.organization }),
          text: ({ account }) => card(account, COLUMNS),
        })),
      ),
    new Command('update')
      .description('Change the plan, limits and quotas.')
      .addOption(ORGANIZATION)
      .addOption(new Option('--plan <plan>', 'the plan').choices(['free', 'paid', 'default']))
      .option('--projects-limit <count>', 'projects, or default', limit)
      .option('--branches-limit <count>', 'branches of one project, or default', limit)
      .option('--active-time <time>', 'how long computes may run in a month: 90 (s), 10h, none', seconds)
      .option('--compute-time <time>', 'the same times their CU', seconds)
      .option('--written-data <bytes>', 'WAL that they may write in a month: 5GiB, none', bytes)
      .option('--data-transfer <bytes>', 'bytes that clients may get in a month: 5GiB, none', bytes)
      .action(
        verb(async ({ call, flags }: VerbSession<Changes>) => ({
          answer: await call(
            'PATCH /account',
            { body: { account: changesOf(flags) } },
            { organization: flags.organization },
          ),
          text: ({ account }) => card(account, COLUMNS),
        })),
      ),
  ])
}

function changesOf(flags: Changes) {
  const { plan, projectsLimit, branchesLimit, activeTime, computeTime, writtenData, dataTransfer } = flags
  return {
    ...(plan && { plan: orNull(plan) }),
    ...(projectsLimit !== undefined && { projects_limit: orNull(projectsLimit) }),
    ...(branchesLimit !== undefined && { branches_limit: orNull(branchesLimit) }),
    quota: {
      ...(activeTime !== undefined && { active_time_seconds: activeTime }),
      ...(computeTime !== undefined && { compute_time_seconds: computeTime }),
      ...(writtenData !== undefined && { written_data_bytes: writtenData }),
      ...(dataTransfer !== undefined && { data_transfer_bytes: dataTransfer }),
    },
  }
}
