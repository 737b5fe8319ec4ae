import { useVirtualizer } from '@tanstack/react-virtual'
import { useMemo, useRef } from 'react'
import { Copied } from '../../parts/copied.tsx'

const LINE_PIXELS = 20

const KINDS: Readonly<Record<string, string>> = { '+': 'added', '-': 'removed', '@': 'place' }

/** The kind of a line of a unified diff, of which the first two name the files. */
const kindOf = (line: string, index: number): string | undefined => (index < 2 ? 'place' : KINDS[line[0] ?? ''])

/** A unified diff of any length: only the lines in view are in the page. */
export function DiffView({
  diff,
  again,
  isReading,
}: {
  readonly diff: string
  readonly again: () => void
  readonly isReading: boolean
}) {
  const lines = useMemo(() => diff.trimEnd().split('\n'), [diff])
  const counts = useMemo(() => {
    const kinds = lines.map(kindOf)
    return {
      added: kinds.filter((kind) => kind === 'added').length,
      removed: kinds.filter((kind) => kind === 'removed').length,
    }
  }, [lines])
  const scrolled = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scrolled.current,
    estimateSize: () => LINE_PIXELS,
    overscan: 20,
  })
  return (
    <>
      <div className="heading">
        <span>
          <ins>{counts.added.toLocaleString('en')} lines more</ins>,{' '}
          <del>{counts.removed.toLocaleString('en')} lines fewer</del>
        </span>
        <Copied text={diff} what="the diff" shown="Copy all" />
        <button type="button" disabled={isReading} onClick={again}>
          Compare again
        </button>
      </div>
      {/* A region that scrolls is reached by the keyboard. */}
      <div className="diff" ref={scrolled} tabIndex={0} role="region" aria-label="Differences">
        <div style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const line = lines[index] ?? ''
            return (
              <code key={index} className={kindOf(line, index)} style={{ transform: `translateY(${start}px)` }}>
                {line === '' ? ' ' : line}
              </code>
            )
          })}
        </div>
      </div>
    </>
  )
}
