import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useRef, useState } from 'react'
import { Copied } from '../parts/copied.tsx'
import type { Column, Row } from './ask.ts'

const ROW_PX = 28
const MAX_PX = 480
/** Of a horizontal scroll bar, and the borders. */
const EDGES_PX = 18
const SAMPLE = 50
const [MIN_CH, MAX_CH] = [6, 44]
/** Of a long value, what a cell holds; all of it is shown when the cell is chosen. */
const MAX_CELL = 200

interface GridProps {
  readonly label: string
  readonly columns: readonly Pick<Column, 'name'>[]
  readonly rows: readonly Row[]
  /** A row's own cell at its beginning, such as buttons. */
  readonly lead?: (row: Row, index: number) => ReactNode
  /** A column's heading, where it is more than the name. */
  readonly heading?: (name: string) => ReactNode
}

/** Rows that scroll however many they are: only those in sight are in the page. */
export function Grid({ label, columns, rows, lead, heading }: GridProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const [chosen, setChosen] = useState<{ row: number; column: number }>()
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  })
  const leadWidth = lead ? 'max-content' : `${String(rows.length).length + 4}ch`
  const gridTemplateColumns = [lead ? '19ch' : leadWidth, ...columns.map((_, at) => widthOf(columns, rows, at))].join(
    ' ',
  )
  const value = chosen && rows[chosen.row]?.[chosen.column]
  return (
    <div className="grid">
      <div
        className="scroller"
        ref={scroller}
        tabIndex={0}
        style={{ height: Math.min(MAX_PX, (rows.length + 1) * ROW_PX + EDGES_PX) }}
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
      >
        <div className="line head" role="row" aria-rowindex={1} style={{ gridTemplateColumns }}>
          <span role="columnheader">{lead ? <span className="hidden">Actions</span> : '#'}</span>
          {columns.map(({ name }, at) => (
            <span role="columnheader" key={at} title={name}>
              {heading ? heading(name) : name}
            </span>
          ))}
        </div>
        <div role="rowgroup" className="lines" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => (
            <div
              key={index}
              className="line"
              role="row"
              aria-rowindex={index + 2}
              style={{ gridTemplateColumns, transform: `translateY(${start}px)` }}
            >
              <span role="rowheader">{lead ? lead(rows[index] ?? [], index) : index + 1}</span>
              {columns.map((_, at) => (
                <Cell key={at} value={rows[index]?.[at]} choose={() => setChosen({ row: index, column: at })} />
              ))}
            </div>
          ))}
        </div>
      </div>
      {chosen && value !== undefined && (
        <div className="value">
          <span>
            {columns[chosen.column]?.name}, row {chosen.row + 1}
          </span>
          {value !== null && <Copied text={value} what="the value" />}
          <button type="button" onClick={() => setChosen(undefined)}>
            Close
          </button>
          <pre tabIndex={0}>{value ?? 'NULL'}</pre>
        </div>
      )}
    </div>
  )
}

function Cell({ value, choose }: { readonly value: string | null | undefined; readonly choose: () => void }) {
  if (value === null || value === undefined)
    return (
      <span role="cell" className="null">
        NULL
      </span>
    )
  const short = value.length > MAX_CELL ? `${value.slice(0, MAX_CELL)}…` : value
  return (
    <span role="cell" title={short} onClick={choose}>
      {short}
    </span>
  )
}

/** As wide as the first values want, within limits. */
function widthOf(columns: GridProps['columns'], rows: readonly Row[], at: number): string {
  let widest = columns[at]?.name.length ?? 0
  for (const row of rows.slice(0, SAMPLE)) widest = Math.max(widest, row[at]?.length ?? 4)
  return `${Math.min(MAX_CH, Math.max(MIN_CH, widest)) + 3}ch`
}
