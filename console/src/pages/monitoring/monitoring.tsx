import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useState } from 'react'
import { call, type Endpoint } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { NoCompute } from '../../parts/no_compute.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { Chart } from './chart.tsx'
import { CHARTS } from './definitions.ts'
import { readColors } from './drawing.ts'
import { type Figures, figuresOf } from './figures.ts'
import { ChangesTable, FiguresTable } from './figures_table.tsx'
import { Forecast } from './forecast.tsx'
import { type ChosenSpan, endsOf, type RangeName, RANGES, useSpan } from './span.ts'
import './monitoring.css'

const LIVE_EVERY_MS = 30_000

/** The charts of a branch's compute. */
export function Monitoring({ branch, endpoint }: BranchTabProps) {
  const { chosen, choose, zoom } = useSpan()
  const read = useMetrics(endpoint, chosen)
  if (!endpoint) return <NoCompute branch={branch} what="charts" />
  return (
    <>
      <SpanChoice chosen={chosen} choose={choose} zoom={zoom} />
      {read.error && <Failure error={read.error} retry={() => void read.refetch()} />}
      {read.isPending && <Loading what="Reading the figures" />}
      {read.figures && <Charts figures={read.figures} zoom={zoom} keptDays={read.data?.kept_days} />}
      <Forecast branch={branch} figures={read.figures} />
    </>
  )
}

function useMetrics(endpoint: Endpoint | undefined, chosen: ChosenSpan) {
  const { project_id = '', id = '', current_state, created_at, started_at } = endpoint ?? {}
  const read = useQuery({
    queryKey: [...keysOf(project_id).state, 'metrics', id, chosen],
    enabled: endpoint !== undefined,
    placeholderData: keepPreviousData,
    refetchInterval: chosen.range === undefined ? false : LIVE_EVERY_MS,
    queryFn: async () => {
      const ends = endsOf(chosen)
      const query = { from: new Date(ends.from * 1000).toISOString(), to: new Date(ends.to * 1000).toISOString() }
      const params = { project_id, endpoint_id: id }
      return (await call('GET /projects/:project_id/endpoints/:endpoint_id/metrics', { params, query })).metrics
    },
  })
  const { data } = read
  const runsSince = current_state === 'active' && chosen.range !== undefined ? started_at : undefined
  return {
    ...read,
    figures: useMemo(() => data && figuresOf(data, created_at, runsSince), [data, created_at, runsSince]),
  }
}

function Charts({
  figures,
  zoom,
  keptDays,
}: {
  readonly figures: Figures
  readonly zoom: (from: number, to: number) => void
  readonly keptDays: number | undefined
}) {
  const colors = useColors()
  return (
    <>
      {figures.points.length === 0 && (
        <p className="state" role="status">
          The compute did not run in this time, or has just started: the first figures come within a minute. They are
          kept for {keptDays} days.
        </p>
      )}
      <p className="hint">
        <i className="swatch hatched" /> asleep: the last values stay. Drag over a chart to choose a time.
      </p>
      <div className="charts">
        {CHARTS.map((definition) => (
          <Chart key={definition.title} definition={definition} figures={figures} colors={colors} onSelect={zoom} />
        ))}
      </div>
      <ChangesTable scaling={figures.scaling} />
      <FiguresTable figures={figures} />
    </>
  )
}

/** The colors of the page, read anew when it becomes light or dark. */
function useColors() {
  const [colors, setColors] = useState(readColors)
  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const readAgain = () => setColors(readColors())
    scheme.addEventListener('change', readAgain)
    return () => scheme.removeEventListener('change', readAgain)
  }, [])
  return colors
}

/** Chooses the time of all charts, also without a pointer. */
function SpanChoice({ chosen, choose, zoom }: ReturnType<typeof useSpan>) {
  const move = (earlier: number, wider: number) => {
    const { from, to } = endsOf(chosen)
    const seconds = to - from
    const middle = (from + to) / 2 - earlier * seconds
    zoom(middle - (wider * seconds) / 2, middle + (wider * seconds) / 2)
  }
  return (
    <div className="spans" role="group" aria-label="Time of the charts">
      {(Object.keys(RANGES) as RangeName[]).map((name) => (
        <button key={name} type="button" aria-pressed={chosen.range === name} onClick={() => choose(name)}>
          {RANGES[name].title}
        </button>
      ))}
      <button type="button" onClick={() => move(0.5, 1)}>
        ← Earlier
      </button>
      <button
        type="button"
        disabled={chosen.range !== undefined}
        title={chosen.range === undefined ? undefined : 'The charts end now.'}
        onClick={() => move(-0.5, 1)}
      >
        Later →
      </button>
      <button type="button" onClick={() => move(0, 0.5)}>
        Zoom in
      </button>
      <button type="button" onClick={() => move(0, 2)}>
        Zoom out
      </button>
      {chosen.range === undefined && <small>{endsText(chosen)}</small>}
    </div>
  )
}

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const endsText = ({ from, to }: { readonly from: number; readonly to: number }) =>
  moment.formatRange(new Date(from * 1000), new Date(to * 1000))
