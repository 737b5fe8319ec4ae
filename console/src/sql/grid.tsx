import { useVirtualizer, type Virtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from 'react'
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

/** How arrow keys move between cells: rows and columns. */
const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
}

const within = (value: number, length: number): number => Math.max(0, Math.min(length - 1, value))

/**
 * Rows that scroll however many they are: only those in sight are in the page. A cell is chosen by a click or the arrow
 * keys, and its whole value shown below.
 */
export function Grid({ label, columns, rows, lead, heading }: GridProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  })
  const leadWidth = lead ? '19ch' : `${String(rows.length).length + 4}ch`
  const gridTemplateColumns = [leadWidth, ...columns.map((_, at) => widthOf(columns, rows, at))].join(' ')
  const { chosen, setChosen, onKey } = useChosenCell(scroller, virtual, rows.length, columns.length)
  const value = chosen && rows[chosen.row]?.[chosen.column]
  return (
    <div className="grid">
      <div
        className="scroller"
        ref={scroller}
        tabIndex={0}
        onKeyDown={onKey}
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
                <Cell
                  key={at}
                  value={rows[index]?.[at]}
                  isChosen={chosen?.row === index && chosen.column === at}
                  choose={() => setChosen({ row: index, column: at })}
                />
              ))}
            </div>
          ))}
        </div>
      </div>
      {chosen && value !== undefined && (
        <Value
          title={`${columns[chosen.column]?.name}, row ${chosen.row + 1}`}
          value={value}
          close={() => setChosen(undefined)}
        />
      )}
    </div>
  )
}

interface CellPlace {
  readonly row: number
  readonly column: number
}

/** The cell that a click or the arrow keys have chosen. */
function useChosenCell(
  scroller: RefObject<HTMLDivElement | null>,
  virtual: Virtualizer<HTMLDivElement, Element>,
  rowCount: number,
  columnCount: number,
) {
  const [chosen, setChosen] = useState<CellPlace>()
  useEffect(() => {
    if (chosen) scroller.current?.querySelector('.chosen')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [scroller, chosen])
  function onKey(event: KeyboardEvent<HTMLElement>): void {
    const move = MOVES[event.key]
    if (event.key === 'Escape') setChosen(undefined)
    // Buttons and fields within have keys of their own.
    if (move === undefined || event.target !== event.currentTarget || rowCount === 0) return
    event.preventDefault()
    const [down, right] = move
    const next = chosen
      ? { row: within(chosen.row + down, rowCount), column: within(chosen.column + right, columnCount) }
      : { row: within(Math.ceil((virtual.scrollOffset ?? 0) / ROW_PX), rowCount), column: 0 }
    virtual.scrollToIndex(next.row)
    setChosen(next)
  }
  return { chosen, setChosen, onKey }
}

interface ValueProps {
  readonly title: string
  readonly value: string | null
  readonly close: () => void
}

/** The whole value of the chosen cell. */
function Value({ title, value, close }: ValueProps) {
  return (
    <div className="value" aria-live="polite">
      <span>{title}</span>
      {value !== null && <Copied text={value} what="the value" />}
      <button type="button" onClick={close}>
        Close
      </button>
      <pre tabIndex={0}>{value ?? 'NULL'}</pre>
    </div>
  )
}

interface CellProps {
  readonly value: string | null | undefined
  readonly isChosen: boolean
  readonly choose: () => void
}

function Cell({ value, isChosen, choose }: CellProps) {
  const isNull = value === null || value === undefined
  const short = isNull ? 'NULL' : value.length > MAX_CELL ? `${value.slice(0, MAX_CELL)}…` : value
  const name = [isNull && 'null', isChosen && 'chosen'].filter(Boolean).join(' ')
  return (
    <span role="cell" className={name} title={isNull ? undefined : short} onClick={choose}>
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
