import { useEffect, useId, useMemo, useRef, useState } from 'react'
import type { ChartDefinition } from './definitions.ts'
import type { Colors } from './drawing.ts'
import type { Figures, Values } from './figures.ts'
import { plotChart } from './plot.ts'

interface ChartProps {
  readonly definition: ChartDefinition
  readonly figures: Figures
  readonly colors: Colors
  readonly onSelect: (from: number, to: number) => void
}

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** A chart with the values where the pointer is, or the latest ones. */
export function Chart({ definition, figures, colors, onSelect }: ChartProps) {
  const { title, about, lines, format } = definition
  const [step, setStep] = useState<number>()
  const into = useRef<HTMLDivElement>(null)
  const named = useId()
  const values = useMemo(() => lines.map((line) => line.values(figures)), [lines, figures])
  const select = useRef(onSelect)
  useEffect(() => {
    select.current = onSelect
  })
  useEffect(() => {
    const element = into.current
    if (!element) return undefined
    const plot = plotChart(element, definition, figures, colors, {
      onStep: setStep,
      onSelect: (from, to) => select.current(from, to),
    })
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height: plot.height })
    })
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [definition, figures, colors])
  const at = step === undefined ? undefined : figures.times[step]
  return (
    <figure className="chart" aria-labelledby={named}>
      <figcaption>
        <h3 id={named}>{title}</h3>
        <small>{about}</small>
      </figcaption>
      <ul className="legend">
        {lines.map(({ label, color }, index) => {
          const value = valueAt(values[index] ?? [], step)
          return (
            <li key={label}>
              <i className={`swatch ${color}`} /> {label} <b>{value === undefined ? '–' : format(value)}</b>
            </li>
          )
        })}
        <li className="when">{at === undefined ? 'latest' : moment.format(new Date(at * 1000))}</li>
      </ul>
      <div ref={into} className="plot" role="img" aria-label={summary(definition, values)} />
    </figure>
  )
}

/** The value at a step, or the latest known one. */
function valueAt(values: Values, step: number | undefined): number | undefined {
  const value = step === undefined ? values.findLast((each) => each !== null) : values[step]
  return value ?? undefined
}

/** What a chart shows, for those who do not see it. */
function summary({ title, lines, format }: ChartDefinition, all: readonly Values[]): string {
  const parts = lines.map(({ label }, index) => {
    const known = (all[index] ?? []).filter((value) => value !== null)
    const latest = known.at(-1)
    if (latest === undefined) return `${label}: no figures`
    const most = known.reduce((one, other) => Math.max(one, other), 0)
    return `${label}: latest ${format(latest)}, at most ${format(most)}`
  })
  return `${title}. ${parts.join('. ')}. The table below has all figures.`
}
