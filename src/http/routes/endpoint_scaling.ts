import { Type } from 'typebox'
import { listScalings } from '../../catalog/scaling.ts'
import { requireEndpoint, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { route } from '../route.ts'
import { EndpointParams } from './endpoints.ts'

const Scaling = Type.Object(
  {
    at: Type.String({ format: 'date-time' }),
    compute_id: Type.String(),
    from_cu: Type.Number(),
    to_cu: Type.Number(),
    wanted_cu: Type.Optional(Type.Number({ description: 'What it wanted, where its host had less room' })),
    reason: Type.Union(
      [
        Type.Literal('request'),
        Type.Literal('cpu'),
        Type.Literal('memory'),
        Type.Literal('cache'),
        Type.Literal('less_use'),
      ],
      {
        description:
          'request: the limits were changed. cpu: its CPU limit stopped it. memory: memory that cannot be reclaimed ' +
          'neared its limit. cache: pages that it needs were evicted. less_use: it needs less.',
      },
    ),
    figures: Type.Optional(
      Type.Record(Type.String(), Type.Number(), {
        description: 'What was measured just before, in CPUs, bytes, parts',
      }),
    ),
  },
  { $id: 'Scaling' },
)

export const getEndpointScaling = route('GET /projects/:project_id/endpoints/:endpoint_id/scaling', {
  summary: 'List the changes of the size of a running compute, newest first, of the last seven days',
  tag: 'Endpoint',
  params: EndpointParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(Type.String({ description: 'pagination.cursor of the page before' })),
  }),
  returns: Type.Object({
    scaling: Type.Array(Scaling),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, query }, context) => {
  await requireProject(context, params.project_id)
  const { id } = await requireEndpoint(context, params)
  const rows = await listScalings(context.db, id, parseCursor(query.cursor), query.limit ?? 100)
  const last = rows.at(-1)
  return {
    scaling: rows.map(({ scaled_at, compute_id, from_cu, to_cu, wanted_cu, reason, figures }) => ({
      at: scaled_at,
      compute_id,
      from_cu,
      to_cu,
      ...(wanted_cu !== null && { wanted_cu }),
      reason,
      ...(figures && { figures }),
    })),
    ...(last && { pagination: { cursor: String(last.id) } }),
  }
})

function parseCursor(cursor: string | undefined): number | undefined {
  if (!cursor) return undefined
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new AppError(
    'INVALID_REQUEST',
    'cursor is not one of ours: pass pagination.cursor of the page before as it is.',
  )
}
