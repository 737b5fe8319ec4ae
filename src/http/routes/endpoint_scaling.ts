import { Type } from 'typebox'
import { listScalings } from '../../catalog/scaling.ts'
import { requireEndpoint, requireProject } from '../../commands/require.ts'
import { AppError } from '../../errors.ts'
import { Scaling, scalingView } from '../../views/scaling.ts'
import { route } from '../route.ts'
import { EndpointParams } from './endpoints.ts'

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
    scaling: rows.map(scalingView),
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
