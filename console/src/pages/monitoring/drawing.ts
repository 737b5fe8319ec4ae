import type uPlot from 'uplot'
import type { Figures } from './figures.ts'

/** The colors of the page as a canvas takes them. */
export type Colors = Readonly<Record<'accent' | 'busy' | 'quiet' | 'danger' | 'line', string>>

/** Reads the colors in force: a custom property alone would still say light-dark(). */
export function readColors(): Colors {
  const probe = document.body.appendChild(document.createElement('i'))
  const read = (name: string) => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const colors = {
    accent: read('accent'),
    busy: read('busy'),
    quiet: read('quiet'),
    danger: read('danger'),
    line: read('line'),
  }
  probe.remove()
  return colors
}

/** Hatches the times in which no compute ran, below the lines. */
export function drawAsleep(plot: uPlot, { asleep }: Pick<Figures, 'asleep'>, colors: Colors): void {
  const { ctx, bbox } = plot
  const pattern = hatching(ctx, colors)
  if (!pattern) return
  ctx.save()
  ctx.fillStyle = pattern
  for (const [from, to] of asleep) {
    const left = Math.max(bbox.left, plot.valToPos(from, 'x', true))
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, 'x', true))
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height)
  }
  ctx.restore()
}

const HATCH_PIXELS = 10

function hatching(ctx: CanvasRenderingContext2D, { line }: Colors): CanvasPattern | null {
  const tile = document.createElement('canvas')
  tile.width = tile.height = HATCH_PIXELS
  const drawn = tile.getContext('2d')
  if (!drawn) return null
  drawn.strokeStyle = line
  drawn.lineWidth = 2
  drawn.beginPath()
  for (const offset of [-HATCH_PIXELS, 0, HATCH_PIXELS]) {
    drawn.moveTo(offset, HATCH_PIXELS)
    drawn.lineTo(offset + HATCH_PIXELS, 0)
  }
  drawn.stroke()
  return ctx.createPattern(tile, 'repeat')
}

const MARK_PIXELS = 5

/** Marks the changes of size at the upper edge: a triangle that points to where it went. */
export function drawMarks(plot: uPlot, { scaling }: Pick<Figures, 'scaling'>, colors: Colors): void {
  const { ctx, bbox } = plot
  const size = MARK_PIXELS * devicePixelRatio
  let last = Infinity
  ctx.save()
  for (const { at, from_cu, to_cu } of scaling) {
    const x = plot.valToPos(Date.parse(at) / 1000, 'x', true)
    // They come newest first; one that would cover the one before is left to the table.
    if (x < bbox.left || x > bbox.left + bbox.width || last - x < 2 * size) continue
    last = x
    const grows = to_cu > from_cu
    const [tip, base] = grows ? [bbox.top, bbox.top + 2 * size] : [bbox.top + 2 * size, bbox.top]
    ctx.fillStyle = grows ? colors.danger : colors.quiet
    ctx.beginPath()
    ctx.moveTo(x, tip)
    ctx.lineTo(x - size, base)
    ctx.lineTo(x + size, base)
    ctx.fill()
  }
  ctx.restore()
}
