import { bytes } from './amounts.ts'
import { hoursOf } from './meter.tsx'

/** The metrics that are asked for, and how they are read. */
export const METRICS = {
  compute_unit_seconds: { title: 'Compute (CU × time)', show: hoursOf },
  root_branch_bytes_month: { title: 'Root branches (size × time)', show: (amount: number) => `${bytes(amount)} h` },
  child_branch_bytes_month: { title: 'Child branches (size × time)', show: (amount: number) => `${bytes(amount)} h` },
  public_network_transfer_bytes: { title: 'Transfer', show: bytes },
} as const

type MetricName = keyof typeof METRICS
export const METRIC_NAMES = Object.keys(METRICS) as MetricName[]

/** What was used, by metric. */
export type Used = { readonly [N in MetricName]?: number }

export interface UsageRow {
  readonly key: string
  readonly title: React.ReactNode
  readonly used: Used
}

/** The metrics of the API's answer as one record. */
export const usedOf = (metrics: readonly { readonly metric_name: string; readonly value: number }[]): Used =>
  Object.fromEntries(metrics.map(({ metric_name, value }) => [metric_name, value]))

/** The sum of what was used in several times. */
export const sumOf = (all: readonly Used[]): Used =>
  Object.fromEntries(METRIC_NAMES.map((name) => [name, all.reduce((sum, used) => sum + (used[name] ?? 0), 0)]))

/** What was used in each row, with bars that compare the rows. */
export function UsageTable({
  label,
  first,
  rows,
}: {
  readonly label: string
  readonly first: string
  readonly rows: readonly UsageRow[]
}) {
  const most = (name: MetricName) => Math.max(1, ...rows.map(({ used }) => used[name] ?? 0))
  return (
    <div className="table usage">
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {[first, ...METRIC_NAMES.map((name) => METRICS[name].title)].map((title) => (
              <th key={title} role="columnheader" scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map(({ key, title, used }) => (
            <tr key={key} role="row">
              <td role="cell" data-title={first}>
                <div>{title}</div>
              </td>
              {METRIC_NAMES.map((name) => (
                <td key={name} role="cell" data-title={METRICS[name].title}>
                  <div>
                    {METRICS[name].show(used[name] ?? 0)}
                    <div className="bar" style={{ width: `${(100 * (used[name] ?? 0)) / most(name)}%` }} />
                  </div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
