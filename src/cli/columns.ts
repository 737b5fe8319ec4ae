import type { ApiOperation } from './wait.ts'

/** A compute size: `0.5 CU`, or `1-4 CU` when it scales. */
export const size = (min: number, max: number): string => `${min === max ? min : `${min}-${max}`} CU`

/** A suspend time-out. */
export function suspends(seconds: number): string {
  return seconds === -1 ? 'never' : seconds === 0 ? 'default' : `${seconds} s`
}

/** A span of time as options take it: `7d`, `36h`, `45m`, else in seconds. */
export function span(seconds: number): string {
  const unit = SPANS.find(([length]) => seconds > 0 && seconds % length === 0)
  return unit ? `${seconds / unit[0]}${unit[1]}` : `${seconds} s`
}

const SPANS = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'm'],
] as const

/** A state, and the one that comes next. */
export const state = (current: string, pending: string | undefined): string =>
  pending && pending !== current ? `${current} → ${pending}` : current

/** The operations in an answer, for its last line. */
export function underWay(operations: readonly ApiOperation[]): string | undefined {
  return operations.map(({ action, status }) => `${action} ${status}`).join(', ') || undefined
}

/** `yes` for true; undefined, which shows an empty cell, for false. */
export const yes = (is: boolean | undefined): string | undefined => (is ? 'yes' : undefined)
