import { useState } from 'react'
import { type Column, Table } from '../../parts/table.tsx'
import { reasonOf } from '../compute/size_words.ts'
import { CHARTS } from './definitions.ts'
import type { Figures, Metrics } from './figures.ts'

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' })

interface Row {
  readonly time: number
  readonly cells: readonly string[]
}

const TITLES = CHARTS.flatMap(({ lines }) => lines.map(({ label }) => label))
const COLUMNS: readonly Column<Row>[] = [
  { title: 'Time', of: ({ time }) => moment.format(new Date(time * 1000)) },
  ...TITLES.map((title, index) => ({ title, of: ({ cells }: Row) => cells[index] ?? '' })),
]

/** All figures as a table, made when it is opened: the charts for those who do not see them. */
export function FiguresTable({ figures }: { readonly figures: Figures }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="figures" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>All figures as a table</summary>
      {isOpen && <Table label="Figures" columns={COLUMNS} rows={rowsOf(figures)} keyOf={({ time }) => time} />}
    </details>
  )
}

/** The steps in which the compute ran or woke, the latest first. */
function rowsOf(figures: Figures): Row[] {
  const ran = new Set(figures.points.map(({ at }) => Date.parse(at) / 1000))
  const columns = CHARTS.flatMap(({ lines, format }) => lines.map((line) => ({ values: line.values(figures), format })))
  const wakes = figures.wakeColumn(({ count }) => count)
  return figures.times
    .map((time, index) => ({ time, index }))
    .filter(({ time, index }) => ran.has(time) || wakes[index] !== null)
    .toReversed()
    .map(({ time, index }) => ({
      time,
      cells: columns.map(({ values, format }) => {
        const value = values[index]
        return value === null || value === undefined ? '' : format(value)
      }),
    }))
}

type Change = Metrics['scaling'][number]

const CHANGES: readonly Column<Change>[] = [
  { title: 'Time', of: ({ at }) => moment.format(new Date(at)) },
  { title: 'From', of: ({ from_cu }) => `${from_cu} CU` },
  {
    title: 'To',
    of: ({ to_cu, wanted_cu }) =>
      `${to_cu} CU${wanted_cu === undefined ? '' : ` of ${wanted_cu}: the host had no more`}`,
  },
  { title: 'Because', of: reasonOf },
]

/** The changes of size that the triangles mark, with their reasons. */
export function ChangesTable({ scaling }: { readonly scaling: Metrics['scaling'] }) {
  if (scaling.length === 0) return null
  return (
    <details className="figures">
      <summary>{scaling.length === 1 ? '1 change of size' : `${scaling.length} changes of size`}</summary>
      <Table label="Changes of size" columns={CHANGES} rows={scaling} keyOf={({ at }) => at} />
    </details>
  )
}
