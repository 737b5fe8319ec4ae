import type { History } from './history.ts'

/** The invariants, by number and text of the list of invariants. */
export const INVARIANTS = {
  durable: '1 what was acknowledged is there, without a gap',
  balanced: '1 the sum of all accounts stays what it was',
  isolated: '2 a branch has what its parent had, and nothing of what others write',
  single: '3 one Postgres for a data directory',
  ended: '4 operations end within their time',
  justified: '4 operations fail only for what was done to them',
  once: '5 the same key, the same reply, one effect',
  admitted: '6 no connection is refused because of a suspend or a wake',
  undisturbed: '7, 8 no session ends but by what is meant to end it',
  answered: '8 the API answers, or says that it is unavailable',
  gone: '9 what is gone leaves nothing',
  apart: '10 another account sees nothing',
  audited: '11 one audit row for each change',
  discreet: '11 no secret in a log',
  paged: '12 pages of a list that grows are exact',
} as const

export type Invariant = keyof typeof INVARIANTS

export interface Violation {
  readonly invariant: Invariant
  readonly what: string
  readonly history: readonly string[]
}

export interface Checks {
  /** Records one check: `wrong` describes the violation, if there is one. */
  look(invariant: Invariant, wrong: string | undefined | false): void
  readonly looks: Readonly<Record<Invariant, number>>
  readonly violations: readonly Violation[]
}

const HISTORY_LINES = 60

export function startChecks(history: History, onViolation: (violation: Violation) => void): Checks {
  const names = Object.keys(INVARIANTS) as Invariant[]
  const looks = Object.fromEntries(names.map((name) => [name, 0])) as Record<Invariant, number>
  const violations: Violation[] = []
  return {
    looks,
    violations,
    look(invariant, wrong) {
      looks[invariant]++
      if (!wrong) return
      history.note(`VIOLATION of ${invariant}: ${wrong}`)
      const violation = { invariant, what: wrong, history: history.last(HISTORY_LINES) }
      violations.push(violation)
      onViolation(violation)
    },
  }
}
