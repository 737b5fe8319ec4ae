/** The kinds of work that a fault may break while it lasts: open sessions, attempts to connect, requests to the API. */
export type Breakable = 'sessions' | 'connects' | 'requests'

interface Disruption {
  readonly what: string
  readonly breaks: readonly Breakable[]
  /** The only affected branch. Undefined when the disruption is not limited to one. */
  readonly branch: string | undefined
  readonly since: number
  until: number
}

/** The events of a run in order, and the disruptions that excuse failures. */
export interface History {
  note(what: string): void
  /** Starts a disruption that may break these; the returned function ends it. */
  disrupt(what: string, breaks: readonly Breakable[], branch?: string): () => void
  /** A disruption that lasted at some time between the two and may break this. In milliseconds, as Date.now. */
  excuse(broke: Breakable, since: number, until: number, branch?: string): string | undefined
  /** All disruptions that lasted at some time between the two, regardless of what they may break. */
  lasting(since: number, until: number): readonly string[]
  /** The last lines, oldest first; by default all that are kept. */
  last(lines?: number): readonly string[]
}

/** A failure is often seen a moment after the disruption that caused it has ended. */
const GRACE_MS = 3_000
const KEPT_LINES = 100_000

export function startHistory(): History {
  const begun = Date.now()
  const lines: string[] = []
  const disruptions: Disruption[] = []

  function note(what: string): void {
    lines.push(`${((Date.now() - begun) / 1000).toFixed(2).padStart(8)} s  ${what}`)
    if (lines.length > KEPT_LINES) lines.shift()
  }

  const between = (since: number, until: number) =>
    disruptions.filter((each) => each.since <= until && each.until >= since)

  return {
    note,
    disrupt(what, breaks, branch) {
      note(`${what} begins`)
      const disruption: Disruption = { what, breaks, branch, since: Date.now(), until: Infinity }
      disruptions.push(disruption)
      return () => {
        if (disruption.until !== Infinity) return
        disruption.until = Date.now() + GRACE_MS
        note(`${what} is over`)
      }
    },
    excuse: (broke, since, until, branch) =>
      between(since, until).find(
        (each) => each.breaks.includes(broke) && (each.branch === undefined || each.branch === branch),
      )?.what,
    lasting: (since, until) => between(since, until).map(({ what }) => what),
    last: (count = KEPT_LINES) => lines.slice(-count),
  }
}
