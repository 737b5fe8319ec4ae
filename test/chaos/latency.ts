import type { History } from './history.ts'

/** What clients wait for: a transaction at a compute that runs, a connection to one that sleeps. */
export type Waited = 'transaction' | 'wake'

interface Sample {
  readonly since: number
  readonly until: number
}

/** How long clients waited in a run, told apart by what went on meanwhile. */
export interface Latencies {
  /** Notes a wait that is over. @param since when it began, as Date.now */
  note(waited: Waited, since: number): void
  /** The milliseconds of all waits during which this disruption, and no other, lasted; without a name those in which nothing was disrupted. */
  during(waited: Waited, disruption?: string): number[]
}

export function startLatencies(history: History): Latencies {
  const samples: Record<Waited, Sample[]> = { transaction: [], wake: [] }
  return {
    note: (waited, since) => void samples[waited].push({ since, until: Date.now() }),
    during: (waited, disruption) =>
      samples[waited].flatMap(({ since, until }) => {
        const lasting = history.lasting(since, until)
        const counts = disruption === undefined ? lasting.length === 0 : lasting.length > 0
        return counts && lasting.every((what) => what === disruption) ? [until - since] : []
      }),
  }
}
