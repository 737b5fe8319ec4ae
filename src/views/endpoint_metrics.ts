import { type Static, Type } from 'typebox'
import type { ComputePoint, WakePoint } from '../catalog/compute_history.ts'

const Time = Type.String({ format: 'date-time' })
const Figure = (description: string) => Type.Optional(Type.Number({ description }))

export const EndpointMetricsPoint = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When the step begins' }),
    cu: Type.Number({ description: 'The size of the compute, on average' }),
    cpu: Figure('CPUs used, on average'),
    cpu_max: Figure('CPUs used in the busiest minute'),
    memory_bytes: Figure('Memory that cannot be reclaimed, at most'),
    cache_bytes: Figure('Memory with cached files, at most'),
    connections: Figure('Sessions of clients at Postgres, at most'),
    client_connections: Figure('Connections of clients at the proxies, pooled ones too, at most'),
    cache_hit_ratio: Figure('The part of the blocks that Postgres found in its shared memory'),
    logical_size_bytes: Figure("The size of the branch's data, as last measured"),
  },
  { $id: 'EndpointMetricsPoint' },
)

export const EndpointWakes = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When the step begins' }),
    count: Type.Integer(),
    mean_ms: Type.Number(),
    max_ms: Type.Number(),
  },
  { $id: 'EndpointWakes', description: 'Starts that clients waited for, in one step' },
)

/** The times of a request for metrics. */
export const MetricsTime = { from: Time, to: Time }

/** The figures of one step as clients see them. */
export function pointView(row: ComputePoint): Static<typeof EndpointMetricsPoint> {
  const given = (name: string, value: number | null) => (value === null ? {} : { [name]: value })
  return {
    at: row.at,
    cu: row.cu,
    ...given('cpu', row.cpu),
    ...given('cpu_max', row.cpu_max),
    ...given('memory_bytes', row.memory),
    ...given('cache_bytes', row.cache),
    ...given('connections', row.sessions),
    ...given('client_connections', row.clients),
    ...given('cache_hit_ratio', row.hit_ratio),
    ...given('logical_size_bytes', row.logical_size),
  }
}

/** Wakes as clients see them. */
export const wakeView = ({ at, count, mean_ms, max_ms }: WakePoint): Static<typeof EndpointWakes> => ({
  at,
  count,
  mean_ms: Math.round(mean_ms),
  max_ms: Math.round(max_ms),
})
