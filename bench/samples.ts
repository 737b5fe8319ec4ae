import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'

const RESULTS = new URL('results/', import.meta.url)

/** The percentile `share` (0 to 1) of the samples (nearest rank). */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}

export type Mark = { readonly what: string; readonly value: number; readonly unit: string } & (
  | { readonly most: number }
  | { readonly least: number }
)

/**
 * Prints a benchmark's table and marks, and writes its raw samples as JSON. Samples are in milliseconds unless another
 * unit is given.
 */
export function report(
  name: string,
  method: readonly string[],
  rows: Record<string, readonly number[]>,
  marks: readonly Mark[],
  unit = 'ms',
): void {
  const [cpu] = cpus()
  console.log(
    `\n${name}\n${method.map((line) => `  ${line}`).join('\n')}\n  ${cpus().length} × ${cpu?.model.trim()}, ` +
      `${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}\n`,
  )
  console.log(
    `  ${unit.padEnd(34)}${['n', 'p50', 'p95', 'p99', 'min', 'max'].map((heading) => heading.padStart(9)).join('')}`,
  )
  for (const [row, samples] of Object.entries(rows)) {
    if (samples.length === 0) continue
    const figures = [
      percentile(samples, 0.5),
      percentile(samples, 0.95),
      percentile(samples, 0.99),
      Math.min(...samples),
      Math.max(...samples),
    ]
    const cells = figures.map((figure) => figure.toFixed(1).padStart(9))
    console.log(`  ${row.padEnd(34)}${String(samples.length).padStart(9)}${cells.join('')}`)
  }
  console.log('')
  for (const mark of marks) {
    const met = 'most' in mark ? mark.value <= mark.most : mark.value >= mark.least
    const asked = 'most' in mark ? `at most ${mark.most}` : `at least ${mark.least}`
    console.log(
      `  ${met ? 'met   ' : 'MISSED'}  ${mark.what}: ${mark.value.toFixed(2)}${mark.unit} (mark: ${asked}${mark.unit})`,
    )
  }
  mkdirSync(RESULTS, { recursive: true })
  writeFileSync(new URL(`${name}.json`, RESULTS), `${JSON.stringify({ name, method, unit, rows, marks }, null, 2)}\n`)
}
