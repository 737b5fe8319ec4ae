import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useLayoutEffect, useRef, useState } from 'react'
import type { Operation } from '../../api.ts'
import { OperationRow } from './row.tsx'

const ROW_PIXELS = 52
const OVERSCAN = 8
const TITLES = ['Operation', 'State', 'Branch', 'Begun', 'Took']

interface ListProps {
  readonly operations: readonly Operation[]
  readonly branchNames: ReadonlyMap<string, string>
  /** Reads the next page; undefined where there is none, or it is being read. */
  readonly readMore: (() => void) | undefined
  /** Whether all have been read. */
  readonly isWhole: boolean
}

/** Operations of which only those in the window are in the page, however many there are. */
export function OperationList({ operations, branchNames, readMore, isWhole }: ListProps) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const list = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => {
    const { top: inWindow = 0 } = list.current?.getBoundingClientRect() ?? {}
    setTop(inWindow + scrollY)
  }, [])
  const rows = useWindowVirtualizer({
    count: operations.length,
    estimateSize: () => ROW_PIXELS,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => operations[index]?.id ?? index,
  })
  const shown = rows.getVirtualItems()
  const last = shown.at(-1)?.index ?? 0
  useLayoutEffect(() => {
    if (last >= operations.length - OVERSCAN) readMore?.()
  }, [last, operations.length, readMore])
  const toggle = (id: string) =>
    setOpened((before) => new Set(before.has(id) ? [...before].filter((each) => each !== id) : [...before, id]))
  return (
    <div
      role="table"
      className="operations"
      aria-label="Operations"
      aria-rowcount={isWhole ? operations.length + 1 : -1}
    >
      <div role="rowgroup" className="titles">
        <div role="row" aria-rowindex={1}>
          {TITLES.map((title) => (
            <span key={title} role="columnheader">
              {title}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" ref={list} className="rows" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, key, start }) => {
          const operation = operations[index]
          if (!operation) return null
          return (
            <div
              key={key}
              role="row"
              aria-rowindex={index + 2}
              data-index={index}
              ref={rows.measureElement}
              style={{ transform: `translateY(${start - top}px)` }}
            >
              <OperationRow
                operation={operation}
                branchName={branchNames.get(operation.branch_id ?? '')}
                isOpen={opened.has(operation.id)}
                toggle={() => toggle(operation.id)}
              />
            </div>
          )
        })}
      </div>
    </div>
  )
}
