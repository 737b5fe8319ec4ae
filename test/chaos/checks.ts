import type { History } from './history.ts'

/** The invariants, by number and text of the list of invariants. */
export const INVARIANTS = {
  durable: '1 acknowledged writes persist, without a gap',
  balanced: '1 the sum of all accounts is constant',
  isolated: '2 a branch has the data of its parent, and no writes of other branches',
  single: '3 a data directory has one Postgres',
  ended: '4 operations end within their deadline',
  justified: '4 operations fail only because of a fault or a cancel',
  once: '5 requests with one key have one reply and one effect',
  admitted: '6 no connection is refused because of a suspend or a wake',
  undisturbed: '7, 8 a session ends only because of a fault',
  answered: '8 the API answers, or reports that it is unavailable',
  removed: '9 a deleted branch leaves no process, directory or row',
  separated: '10 another account sees no data',
  audited: '11 each change has one audit row',
  confidential: '11 no log contains a secret',
  paged: '12 pages of a growing list are exact',
  accounted: '13 only computes that run take room, and none counts twice',
} as const

export type Invariant = keyof typeof INVARIANTS

export interface Violation {
  readonly invariant: Invariant
  readonly what: string
  readonly history: readonly string[]
}

export interface Checks {
  /** Records one check: `wrong` describes the violation, if there is one. */
  record(invariant: Invariant, wrong: string | undefined | false): void
  readonly counts: Readonly<Record<Invariant, number>>
  readonly violations: readonly Violation[]
}

const HISTORY_LINES = 60

export function startChecks(history: History, onViolation: (violation: Violation) => void): Checks {
  const names = Object.keys(INVARIANTS) as Invariant[]
  const counts = Object.fromEntries(names.map((name) => [name, 0])) as Record<Invariant, number>
  const violations: Violation[] = []
  return {
    counts,
    violations,
    record(invariant, wrong) {
      counts[invariant]++
      if (!wrong) return
      history.note(`VIOLATION of ${invariant}: ${wrong}`)
      const violation = { invariant, what: wrong, history: history.last(HISTORY_LINES) }
      violations.push(violation)
      onViolation(violation)
    },
  }
}
