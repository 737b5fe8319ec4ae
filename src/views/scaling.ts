import { type Static, Type } from 'typebox'
import type { Scaling as ScalingRow } from '../catalog/scaling.ts'

export const Scaling = Type.Object(
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

/** A change of a compute's size as clients see it. */
export function scalingView(row: ScalingRow): Static<typeof Scaling> {
  const { scaled_at, compute_id, from_cu, to_cu, wanted_cu, reason, figures } = row
  return {
    at: scaled_at,
    compute_id,
    from_cu,
    to_cu,
    ...(wanted_cu !== null && { wanted_cu }),
    reason,
    ...(figures && { figures }),
  }
}
