/** Draws runs of the autoscaling model as one SVG: jobs that want a CPU, and the size over time. */
import type { RunResult } from './cpu_queue.ts'
import type { Trace } from './traces.ts'

interface DrawnRun {
  readonly trace: Trace
  readonly neap: RunResult
  readonly neon: RunResult
  readonly slow: { readonly neap: number; readonly neon: number }
}

const [WIDTH, HEIGHT, LEFT, GAP] = [720, 110, 40, 46]
const MAX_CU = 8

/** One panel for each trace, below each other. */
export function drawRuns(runs: readonly DrawnRun[]): string {
  const height = runs.length * (HEIGHT + GAP) + 50
  const legend = [
    { x: LEFT, color: '#c9ced6', text: 'jobs that want a CPU' },
    { x: LEFT + 170, color: '#1f6feb', text: "size by Neap's policy" },
    { x: LEFT + 340, color: '#d9822b', text: "size by the formula of Neon's autoscaler" },
  ].map(
    ({ x, color, text }) =>
      `<rect x="${x}" y="14" width="12" height="12" fill="${color}"/><text x="${x + 18}" y="24">${text}</text>`,
  )
  const panels = runs.map((run, index) => panel(run, 40 + index * (HEIGHT + GAP)))
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH + LEFT + 20}" height="${height}" ` +
    `viewBox="0 0 ${WIDTH + LEFT + 20} ${height}" font-family="sans-serif" font-size="12" fill="#24292f">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n${legend.join('')}\n${panels.join('\n')}\n</svg>\n`
  )
}

function panel({ trace, neap, neon, slow }: DrawnRun, top: number): string {
  const seconds = neap.perSecond.length
  const x = (second: number) => (LEFT + (second / seconds) * WIDTH).toFixed(1)
  const y = (cu: number) => (top + 22 + HEIGHT - (Math.min(cu, MAX_CU) / MAX_CU) * HEIGHT).toFixed(1)
  const area = neap.perSecond.map(({ runnable }, second) => `${x(second)},${y(runnable)}`).join(' ')
  const line = ({ perSecond }: RunResult, color: string) => {
    // Only the corners: a size stays the same for minutes.
    const corners = perSecond.flatMap(({ cu }, second) => {
      const before = perSecond[second - 1]?.cu
      return second === 0 || cu === before ? [] : [`${x(second)},${y(before ?? cu)}`, `${x(second)},${y(cu)}`]
    })
    const points = [`${x(0)},${y(perSecond[0]?.cu ?? 0)}`, ...corners, `${x(seconds)},${y(perSecond.at(-1)?.cu ?? 0)}`]
    return `<polyline points="${points.join(' ')}" fill="none" stroke="${color}" stroke-width="1.5"/>`
  }
  const grid = [1, 4, 7].map(
    (cu) =>
      `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${y(cu)}" y2="${y(cu)}" stroke="#eaeef2"/>` +
      `<text x="${LEFT - 8}" y="${Number(y(cu)) + 4}" text-anchor="end">${cu}</text>`,
  )
  const figures =
    `Slow for ${slow.neap} s (${slow.neon} s), ` +
    `${neap.cuSeconds.toFixed(0)} CU-seconds (${neon.cuSeconds.toFixed(0)})`
  return [
    `<text x="${LEFT}" y="${top + 12}"><tspan font-weight="bold">${trace.name}</tspan>: ` +
      `${trace.about}. ${figures}</text>`,
    ...grid,
    `<polygon points="${x(0)},${y(0)} ${area} ${x(seconds)},${y(0)}" fill="#c9ced6"/>`,
    line(neon, '#d9822b'),
    line(neap, '#1f6feb'),
  ].join('\n')
}
