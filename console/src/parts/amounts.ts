const BYTES = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** An amount of bytes such as "7.4 MiB". */
export function bytes(amount: number): string {
  const power = Math.min(BYTES.length - 1, Math.max(0, Math.floor(Math.log2(amount || 1) / 10)))
  return `${(amount / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${BYTES[power]}`
}

/** A duration such as "0.34 ms", "340 ms", "4.2 s" or "3.5 min". */
export function duration(ms: number): string {
  if (ms < 10 && !Number.isInteger(ms)) return `${ms.toFixed(2)} ms`
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

/** A count with separators. */
export const count = (value: number): string => value.toLocaleString('en')

export const rowCount = (value: number): string => (value === 1 ? '1 row' : `${count(value)} rows`)
