import type { History } from './history.ts'

/** Waits of clients: a transaction on a running compute, a connection to an idle one. */
export type Waited = 'transaction' | 'wake'

interface Sample {
  readonly since: number
  readonly until: number
}

/** The latencies of a run, grouped by the disruptions meanwhile. */
export interface Latencies {
  /** Records a completed wait. @param since its start, as Date.now */
  note(waited: Waited, since: number): void
  /**
   * The durations in ms of all waits during which only this disruption lasted; without a name, those without any
   * disruption.
   */
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
