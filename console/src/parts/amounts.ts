const BYTES = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** An amount of bytes such as "7.4 MiB". */
export function bytes(amount: number): string {
  const power = Math.min(BYTES.length - 1, Math.max(0, Math.floor(Math.log2(amount || 1) / 10)))
  return `${(amount / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${BYTES[power]}`
}

/** A duration such as "340 ms", "4.2 s" or "3 min". */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${Math.round(ms / 60_000)} min`
}
