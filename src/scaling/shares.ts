/** What a compute has used of the CPUs lately. */
export interface CpuUse {
  readonly id: string
  readonly cu: number
  /** CPUs used. */
  readonly used: number
}

/** The part of the CPUs from which on they may be short. */
export const SHORT = 0.5
/** A heavy user takes at least this part of what the heaviest takes of its size. */
const HEAVY = 0.5

/**
 * The computes that leave the CPUs to the others first, where CPUs are short: those that use the most of their size.
 * Among them each gets its share by size. The others run for moments, and would wait for as long as the heavy ones'
 * time slices last. Pure.
 */
export function heavyUsers(uses: readonly CpuUse[], cpus: number): ReadonlySet<string> {
  const total = uses.reduce((sum, { used }) => sum + used, 0)
  if (total < SHORT * cpus) return new Set()
  const heaviest = Math.max(...uses.map(({ cu, used }) => used / cu))
  return new Set(uses.filter(({ cu, used }) => used / cu >= HEAVY * heaviest).map(({ id }) => id))
}
