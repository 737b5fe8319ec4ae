import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { ChartDefinition, Line } from './definitions.ts'
import { type Colors, drawAsleep, drawMarks } from './drawing.ts'
import type { Figures } from './figures.ts'

const HEIGHT = 160
const AXIS_WIDTH = 72
const AXIS_HEIGHT = 34
/** Pixels between two labels of time. */
const LABEL_SPACE = 84
/** Distances of an axis of bytes. */
const POWERS_OF_2 = Array.from({ length: 50 }, (_, power) => 2 ** power)
const DAY_SECONDS = 86_400

const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const dayOfMonth = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })

/** The labels of the axis of time: hours, and a day's name where it begins; days for longer times. */
function timeLabels(plot: uPlot, splits: number[]): string[] {
  const { min = 0, max = 0 } = plot.scales['x'] ?? {}
  const isLong = max - min > 2 * DAY_SECONDS
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000)
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0
    return isLong || isMidnight ? dayOfMonth.format(at) : timeOfDay.format(at)
  })
}

interface PlotEvents {
  /** The pointer is at this step; undefined: at none. */
  readonly onStep: (index: number | undefined) => void
  /** A time was selected, in seconds since 1970. */
  readonly onSelect: (from: number, to: number) => void
}

/** Draws a chart. All charts of a page have one pointer and one selection. */
export function plotChart(
  into: HTMLElement,
  definition: ChartDefinition,
  figures: Figures,
  colors: Colors,
  { onStep, onSelect }: PlotEvents,
): uPlot {
  const { lines, format, least } = definition
  const axis = { stroke: colors.quiet, grid: { stroke: colors.line, width: 1 }, ticks: { stroke: colors.line } }
  const options: uPlot.Options = {
    width: Math.max(into.clientWidth, 120),
    height: HEIGHT,
    padding: [8, 30, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: true, range: () => [figures.from, figures.to] },
      y: { range: (_plot, _min, max) => [0, Math.max(least, Number.isFinite(max) ? max * 1.1 : 0)] },
    },
    axes: [
      { ...axis, size: AXIS_HEIGHT, space: LABEL_SPACE, values: timeLabels },
      {
        ...axis,
        size: AXIS_WIDTH,
        values: (_plot, splits) => splits.map((value) => format(value).replace('.0 ', ' ')),
        ...(definition.isBytes && { incrs: POWERS_OF_2 }),
      },
    ],
    cursor: { sync: { key: 'monitoring' }, drag: { x: true, y: false, setScale: false }, y: false },
    series: [{}, ...lines.map((line) => seriesOf(line, colors))],
    hooks: {
      drawClear: [(plot) => drawAsleep(plot, figures, colors)],
      draw: definition.hasMarks ? [(plot) => drawMarks(plot, figures, colors)] : [],
      setCursor: [({ cursor }) => onStep(cursor.idx ?? undefined)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          if (width > 4) onSelect(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'))
        },
      ],
    },
  }
  return new uPlot(options, [[...figures.times], ...lines.map(({ values }) => values(figures))], into)
}

function seriesOf({ label, color, shape }: Line, colors: Colors): uPlot.Series {
  const stroke = colors[color]
  const common = { label, stroke, width: 1.75 }
  if (shape === 'points') return { ...common, paths: () => null, points: { show: true, size: 7, fill: stroke } }
  const steps = shape === 'steps' && uPlot.paths.stepped?.({ align: 1 })
  return { ...common, points: { show: false }, ...(steps && { paths: steps }) }
}
