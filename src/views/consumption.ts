import { type Static, Type } from 'typebox'
import type { UseInTime } from '../catalog/consumption.ts'

export const METRICS = [
  'compute_unit_seconds',
  'root_branch_bytes_month',
  'child_branch_bytes_month',
  'instant_restore_bytes_month',
  'snapshot_storage_bytes_month',
  'public_network_transfer_bytes',
  'private_network_transfer_bytes',
  'extra_branches_month',
] as const
export type Metric = (typeof METRICS)[number]

export const Consumption = Type.Object(
  {
    timeframe_start: Type.String({ format: 'date-time' }),
    timeframe_end: Type.String({ format: 'date-time' }),
    metrics: Type.Array(
      Type.Object({
        metric_name: Type.String(),
        value: Type.Number({
          description:
            'CU times seconds; bytes; for the metrics that end in _month bytes, or branches, times hours: ' +
            'divide by the hours of a month',
        }),
      }),
    ),
  },
  { $id: 'Consumption' },
)

/** The value of each metric; Neap has no private networks. */
const VALUES: Readonly<Record<Metric, (use: UseInTime) => number>> = {
  compute_unit_seconds: ({ compute_seconds }) => Math.round(compute_seconds),
  root_branch_bytes_month: ({ root_byte_hours }) => Math.round(root_byte_hours),
  child_branch_bytes_month: ({ child_byte_hours }) => Math.round(child_byte_hours),
  instant_restore_bytes_month: ({ history_byte_hours }) => Math.round(history_byte_hours),
  snapshot_storage_bytes_month: ({ snapshot_byte_hours }) => Math.round(snapshot_byte_hours),
  public_network_transfer_bytes: ({ transfer_bytes }) => transfer_bytes,
  private_network_transfer_bytes: () => 0,
  extra_branches_month: ({ extra_branch_hours }) => Math.round(extra_branch_hours * 1000) / 1000,
}

/** The metrics of one hour, day or month. */
export function consumptionView(use: UseInTime, end: string, metrics: readonly Metric[]): Static<typeof Consumption> {
  return {
    timeframe_start: new Date(use.since).toISOString(),
    timeframe_end: end,
    metrics: metrics.map((metric_name) => ({ metric_name, value: VALUES[metric_name](use) })),
  }
}
