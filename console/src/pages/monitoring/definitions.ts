import { bytes, duration } from '../../parts/amounts.ts'
import type { Figures, Values } from './figures.ts'

/** A line of a chart. */
export interface Line {
  readonly label: string
  readonly color: 'accent' | 'busy' | 'quiet' | 'danger'
  readonly values: (figures: Figures) => Values
  readonly shape?: 'steps' | 'points'
}

export interface ChartDefinition {
  readonly title: string
  /** What the chart tells, below its title. */
  readonly about: string
  readonly lines: readonly Line[]
  readonly format: (value: number) => string
  /** The least upper end of its axis. */
  readonly least: number
  readonly hasMarks?: boolean
  readonly isBytes?: boolean
}

const number = (digits: number) => (value: number) => value.toFixed(value >= 100 ? 0 : digits)
const percent = (value: number) => `${(100 * value).toFixed(value > 0.99 && value < 1 ? 2 : 0)} %`

export const CHARTS: readonly ChartDefinition[] = [
  {
    title: 'Size and CPU',
    about: 'CUs that the compute had, and CPUs that it used. Triangles are changes of its size.',
    format: number(2),
    least: 0.25,
    hasMarks: true,
    lines: [
      { label: 'Size (CU)', color: 'accent', shape: 'steps', values: (all) => all.column(({ cu }) => cu) },
      { label: 'CPUs used', color: 'busy', values: (all) => all.column(({ cpu }) => cpu) },
      { label: 'CPUs, busiest minute', color: 'quiet', values: (all) => all.column(({ cpu_max }) => cpu_max) },
    ],
  },
  {
    title: 'Memory',
    about: 'Memory that Postgres holds, and files that the kernel keeps in memory for it.',
    format: bytes,
    isBytes: true,
    least: 2 ** 26,
    lines: [
      { label: 'Held', color: 'accent', values: (all) => all.column(({ memory_bytes }) => memory_bytes) },
      { label: 'Cached files', color: 'quiet', values: (all) => all.column(({ cache_bytes }) => cache_bytes) },
    ],
  },
  {
    title: 'Connections',
    about: 'Sessions at Postgres, and clients at the proxies: pooled ones share sessions.',
    format: number(0),
    least: 4,
    lines: [
      { label: 'Sessions', color: 'accent', shape: 'steps', values: (all) => all.column((each) => each.connections) },
      {
        label: 'Clients',
        color: 'busy',
        shape: 'steps',
        values: (all) => all.column(({ client_connections }) => client_connections),
      },
    ],
  },
  {
    title: 'Cache hits',
    about: 'The part of the blocks that Postgres found in its shared memory.',
    format: percent,
    least: 1,
    lines: [{ label: 'Hits', color: 'accent', values: (all) => all.column((each) => each.cache_hit_ratio) }],
  },
  {
    title: 'Data',
    about: "The size of the branch's data, as last measured.",
    format: bytes,
    isBytes: true,
    least: 2 ** 20,
    lines: [
      {
        label: 'Data',
        color: 'accent',
        shape: 'steps',
        values: (all) => all.column(({ logical_size_bytes }) => logical_size_bytes),
      },
    ],
  },
  {
    title: 'Wake latency',
    about: 'How long clients waited for a sleeping compute.',
    format: duration,
    least: 500,
    lines: [
      { label: 'Longest', color: 'danger', shape: 'points', values: (all) => all.wakeColumn(({ max_ms }) => max_ms) },
      { label: 'Mean', color: 'accent', shape: 'points', values: (all) => all.wakeColumn(({ mean_ms }) => mean_ms) },
    ],
  },
]
