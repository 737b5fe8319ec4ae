/** One curve over time. */
export interface Curve {
  readonly name: string
  readonly unit: string
  /** Values by second; undefined where there is none. */
  readonly values: readonly (number | undefined)[]
}

/** A part of the time, named in the picture. */
export interface Phase {
  readonly name: string
  readonly from: number
}

const [WIDTH, HEIGHT, LEFT, GAP, TOP] = [720, 120, 60, 40, 40]

/** Draws curves below each other over the same seconds, as SVG. */
export function drawOverTime(curves: readonly Curve[], phases: readonly Phase[]): string {
  const seconds = Math.max(...curves.map(({ values }) => values.length))
  const height = TOP + curves.length * (HEIGHT + GAP)
  const x = (second: number) => (LEFT + (second / seconds) * WIDTH).toFixed(1)
  const marks = phases.map(
    ({ name, from }) =>
      `<line x1="${x(from)}" x2="${x(from)}" y1="${TOP - 8}" y2="${height - GAP}" stroke="#c9ced6"/>` +
      `<text x="${Number(x(from)) + 4}" y="${TOP - 12}" fill="#57606a">${name}</text>`,
  )
  const panels = curves.map(({ name, unit, values }, index) => {
    const top = TOP + index * (HEIGHT + GAP)
    const most = Math.max(...values.map((value) => value ?? 0)) * 1.1 || 1
    const y = (value: number) => (top + 20 + (HEIGHT - 20) * (1 - value / most)).toFixed(1)
    const points = values.flatMap((value, second) => (value === undefined ? [] : [`${x(second)},${y(value)}`]))
    const highest = Math.round(most / 1.1)
    return [
      `<text x="${LEFT}" y="${top + 12}" font-weight="bold">${name}</text>`,
      ...[0, highest].map(
        (value) =>
          `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${y(value)}" y2="${y(value)}" stroke="#eaeef2"/>` +
          `<text x="${LEFT - 6}" y="${Number(y(value)) + 4}" text-anchor="end">${value}${unit}</text>`,
      ),
      `<polyline points="${points.join(' ')}" fill="none" stroke="#1f6feb" stroke-width="1.5"/>`,
    ].join('\n')
  })
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH + LEFT + 20}" height="${height}" ` +
    `viewBox="0 0 ${WIDTH + LEFT + 20} ${height}" font-family="sans-serif" font-size="12" fill="#24292f">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n${marks.join('\n')}\n${panels.join('\n')}\n` +
    `<text x="${LEFT}" y="${height - 8}" fill="#57606a">0 to ${seconds} seconds</text>\n</svg>\n`
  )
}
