import { Type } from 'typebox'
import { listPoints, listWakes, type SteppedTime } from '../../catalog/compute_history.ts'
import { listScalingsIn } from '../../catalog/scaling.ts'
import { requireEndpoint, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { EndpointMetricsPoint, EndpointWakes, MetricsTime, pointView, wakeView } from '../../views/endpoint_metrics.ts'
import { Scaling, scalingView } from '../../views/scaling.ts'
import { route } from '../route.ts'
import { EndpointParams } from './endpoints.ts'

const HOUR_MS = 3_600_000
const MAX_DAYS = 92
/** Steps in seconds; the shortest is taken by which a time has at most so many points. */
const MAX_STEP = 14_400
const STEPS = [60, 120, 300, 900, 1_800, 3_600, 7_200, MAX_STEP]
const MAX_POINTS = 720
/** So many changes of the size are listed, the latest. */
const MAX_SCALINGS = 300

export const getEndpointMetrics = route('GET /projects/:project_id/endpoints/:endpoint_id/metrics', {
  summary: 'Get the figures of an endpoint over time; steps in which its compute slept are absent; wakes nothing',
  tag: 'Endpoint',
  params: EndpointParams,
  query: Type.Object({
    from: Type.Optional(Type.String({ format: 'date-time', description: 'An hour before `to` unless given' })),
    to: Type.Optional(Type.String({ format: 'date-time', description: 'Now unless given' })),
  }),
  returns: Type.Object({
    metrics: Type.Object(
      {
        ...MetricsTime,
        step_seconds: Type.Integer({ description: `Chosen so that there are at most ${MAX_POINTS} points` }),
        kept_days: Type.Integer(),
        points: Type.Array(EndpointMetricsPoint),
        wakes: Type.Array(EndpointWakes),
        scaling: Type.Array(Scaling, {
          description: `The latest ${MAX_SCALINGS} changes of its size, newest first, of the last seven days`,
        }),
      },
      { $id: 'EndpointMetrics' },
    ),
  }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, query }, context) => {
  const time = readTime(query)
  await requireProject(context, params.project_id)
  const { id } = await requireEndpoint(context, params)
  const { db } = context
  const [points, wakes, scaling] = await Promise.all([
    listPoints(db, id, time),
    listWakes(db, id, time),
    listScalingsIn(db, id, time.from, time.to, MAX_SCALINGS),
  ])
  return {
    metrics: {
      from: time.from,
      to: time.to,
      step_seconds: time.stepSeconds,
      kept_days: context.config.metricsDays,
      points: points.map(pointView),
      wakes: wakes.map(wakeView),
      scaling: scaling.map(scalingView),
    },
  }
})

/** Errors: NOT_ALLOWED. */
function readTime(query: { readonly from?: string; readonly to?: string }): SteppedTime {
  const to = query.to === undefined ? Date.now() : Date.parse(query.to)
  const from = query.from === undefined ? to - HOUR_MS : Date.parse(query.from)
  if (Number.isNaN(from) || Number.isNaN(to)) throw refusal('from and to are moments, as 2026-11-25T10:00:00Z')
  if (from >= to) throw refusal('from is not before to')
  if (to - from > MAX_DAYS * 24 * HOUR_MS) throw refusal(`from and to are more than ${MAX_DAYS} days apart`)
  // Postgres knows other years than Date.
  if (from < 0 || to > 4e12) throw refusal('from and to are moments of these years')
  const seconds = (to - from) / 1000
  const stepSeconds = STEPS.find((step) => seconds / step <= MAX_POINTS) ?? MAX_STEP
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString(), stepSeconds }
}

const refusal = (why: string) => new AppError('NOT_ALLOWED', `${why}.`)
