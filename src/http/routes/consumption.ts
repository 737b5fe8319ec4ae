import { createHash } from 'node:crypto'
import { type Static, Type } from 'typebox'
import {
  type BranchKey,
  type Granularity,
  listBranchesOf,
  listUses,
  type UseInTime,
} from '../../catalog/consumption.ts'
import { findProjects, listProjectsEver } from '../../catalog/project.ts'
import { requireOrganization } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { Consumption, consumptionView, type Metric, METRICS } from '../../views/consumption.ts'
import { type RequestContext, route } from '../route.ts'

/** Branches of a project that are no extra ones. */
const INCLUDED_BRANCHES = 10
const DAY_MS = 86_400_000
/** How far back each granularity reaches. */
const REACH_DAYS: Readonly<Record<Granularity, number>> = { hourly: 7, daily: 60, monthly: 366 }

const Asked = {
  from: Type.String({ format: 'date-time', description: 'From the hour, day or month (UTC) with this moment on' }),
  to: Type.String({ format: 'date-time' }),
  granularity: Type.Union([Type.Literal('hourly'), Type.Literal('daily'), Type.Literal('monthly')]),
  metrics: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    maxItems: 20,
    description: `Of ${METRICS.join(', ')}; of branches all but extra_branches_month and snapshot_storage_bytes_month`,
  }),
  org_id: Type.Optional(Type.String()),
}

const MAX_PROJECTS = 100

const Period = Type.Object({
  period_id: Type.String({ format: 'uuid' }),
  period_plan: Type.String(),
  period_start: Type.String({ format: 'date-time' }),
  period_end: Type.String({ format: 'date-time' }),
  consumption: Type.Array(Consumption),
})

export const getProjectConsumption = route('GET /consumption_history/v2/projects', {
  summary: 'List what projects have used, by hour, day or month; wakes nothing',
  tag: 'Consumption',
  anyProject: true,
  query: Type.Object({
    ...Asked,
    project_ids: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: MAX_PROJECTS })),
    limit: Type.Integer({ minimum: 1, maximum: 100, default: 10 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
  }),
  returns: Type.Object({
    projects: Type.Array(Type.Object({ project_id: Type.String(), periods: Type.Array(Period) })),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'FORBIDDEN'],
}).handle(async ({ query }, context) => {
  requireOrganization(context, query.org_id)
  const asked = readAsked(query, METRICS)
  const { account, projectId } = context.caller
  const limit = query.limit ?? 10
  const projects = query.project_ids
    ? await ownProjects(context, list(query.project_ids))
    : (await listProjectsEver(context.db, account.id, limit, query.cursor, projectId)).map(({ id }) => id)
  const uses = await listUses(context.db, { ...asked, projectIds: projects, byBranch: false, ...INCLUDED })
  const last = query.project_ids ? undefined : projects.at(-1)
  return {
    projects: projects.map((project_id) => ({
      project_id,
      periods: periodsOf(
        uses.filter((use) => use.project_id === project_id),
        asked,
        account.plan,
      ),
    })),
    ...(last && { pagination: { cursor: last } }),
  }
})

const OF_BRANCHES = METRICS.filter((name) => !['extra_branches_month', 'snapshot_storage_bytes_month'].includes(name))

export const getBranchConsumption = route('GET /consumption_history/v2/branches', {
  summary: 'List what branches have used, by hour, day or month; wakes nothing',
  tag: 'Consumption',
  anyProject: true,
  query: Type.Object({
    ...Asked,
    project_ids: Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: MAX_PROJECTS }),
    branch_ids: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: 1000 })),
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
  }),
  returns: Type.Object({
    branches: Type.Array(
      Type.Object({ project_id: Type.String(), branch_id: Type.String(), periods: Type.Array(Period) }),
    ),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'FORBIDDEN'],
}).handle(async ({ query }, context) => {
  requireOrganization(context, query.org_id)
  const asked = readAsked(query, OF_BRANCHES)
  const projectIds = await ownProjects(context, list(query.project_ids))
  const limit = query.limit ?? 100
  const branchIds = query.branch_ids && list(query.branch_ids)
  const keys = await listBranchesOf(context.db, { ...asked, projectIds, branchIds }, limit + 1, cursorOf(query.cursor))
  const page = keys.slice(0, limit)
  const ofPage = {
    projectIds: [...new Set(page.map(({ project_id }) => project_id))],
    branchIds: page.map(({ branch_id }) => branch_id),
  }
  const uses = await listUses(context.db, { ...asked, ...ofPage, byBranch: true, ...INCLUDED })
  const byBranch = Map.groupBy(uses, ({ branch_id }) => branch_id)
  const last = keys.length > page.length ? page.at(-1) : undefined
  return {
    branches: page.map(({ project_id, branch_id }) => ({
      project_id,
      branch_id,
      periods: periodsOf(byBranch.get(branch_id) ?? [], asked, context.caller.account.plan),
    })),
    ...(last && { pagination: { cursor: `${last.project_id} ${last.branch_id}` } }),
  }
})

/** Errors: NOT_ALLOWED. */
function cursorOf(text: string | undefined): BranchKey | undefined {
  if (text === undefined) return undefined
  const [project_id, branch_id] = text.split(' ')
  if (!project_id || !branch_id) throw new AppError('NOT_ALLOWED', 'cursor is none that a page before this one had.')
  return { project_id, branch_id }
}

const INCLUDED = { includedBranches: INCLUDED_BRANCHES }

interface AskedRange {
  readonly from: string
  readonly to: string
  readonly granularity: Granularity
  readonly metrics: readonly Metric[]
}

/** Lists arrive as repeated parameters, or as one with commas. */
const list = (values: readonly string[]): string[] => values.flatMap((value) => value.split(',')).filter(Boolean)

/** Errors: NOT_ALLOWED. */
function readAsked(
  { from, to, granularity, metrics }: Omit<AskedRange, 'metrics'> & { readonly metrics: readonly string[] },
  known: readonly Metric[],
): AskedRange {
  const names = list(metrics)
  const unknown = names.find((name) => !known.some((each) => each === name))
  if (unknown !== undefined) throw new AppError('NOT_ALLOWED', `metrics has ${unknown}; it takes ${known.join(', ')}.`)
  if (Date.parse(from) >= Date.parse(to)) throw new AppError('NOT_ALLOWED', 'from must be before to.')
  const days = REACH_DAYS[granularity]
  if (Date.parse(from) < Date.now() - (days + 1) * DAY_MS)
    throw new AppError(
      'NOT_ALLOWED',
      `from is too long ago: with granularity ${granularity} it reaches ${days} days back.`,
    )
  const until = new Date(Math.min(Date.parse(to), Date.now())).toISOString()
  return { from, to: until, granularity, metrics: names as Metric[] }
}

/** Errors: NOT_FOUND; FORBIDDEN for a key of another project. */
async function ownProjects({ db, caller }: RequestContext, ids: readonly string[]): Promise<string[]> {
  if (ids.length > MAX_PROJECTS)
    throw new AppError('NOT_ALLOWED', `project_ids has ${ids.length} projects; it takes ${MAX_PROJECTS} at most.`)
  if (caller.projectId !== null && ids.some((id) => id !== caller.projectId))
    throw new AppError('FORBIDDEN', `This API key is for the project ${caller.projectId} only.`)
  const found = (await findProjects(db, caller.account.id, ids)).map(({ id }) => id)
  const missing = ids.find((id) => !found.includes(id))
  if (missing !== undefined) throw new AppError('NOT_FOUND', `project ${missing} not found`)
  return found.toSorted()
}

/** The calendar months of what was used, oldest first. */
function periodsOf(
  uses: readonly UseInTime[],
  { granularity, metrics }: AskedRange,
  plan: string,
): Static<typeof Period>[] {
  const months = Map.groupBy(uses, ({ since }) => new Date(since).toISOString().slice(0, 7))
  return [...months].map(([month, used]) => ({
    period_id: periodId(used[0]?.project_id ?? '', month),
    period_plan: plan,
    period_start: `${month}-01T00:00:00.000Z`,
    period_end: endOf(`${month}-01T00:00:00.000Z`, 'monthly'),
    consumption: used.map((use) => consumptionView(use, endOf(use.since, granularity), metrics)),
  }))
}

/** The id of a month of a project, the same in each answer: a UUID of version 8 (RFC 9562, section 5.8). */
function periodId(projectId: string, month: string): string {
  const hex = createHash('sha256').update(`${projectId} ${month}`).digest('hex')
  const [first, second, third, fourth, last] = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 15),
    hex.slice(15, 18),
    hex.slice(18, 30),
  ]
  return `${first}-${second}-8${third}-8${fourth}-${last}`
}

function endOf(start: string, granularity: Granularity): string {
  const at = new Date(start)
  if (granularity === 'monthly') at.setUTCMonth(at.getUTCMonth() + 1)
  else at.setTime(at.getTime() + (granularity === 'daily' ? DAY_MS : 3_600_000))
  return at.toISOString()
}
