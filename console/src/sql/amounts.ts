/** Milliseconds in words. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(2)} ms`
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

/** A count with separators. */
export const count = (value: number): string => value.toLocaleString('en')

export const rowCount = (value: number): string => (value === 1 ? '1 row' : `${count(value)} rows`)
