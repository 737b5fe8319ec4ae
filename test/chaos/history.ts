/** What a fault may break while it lasts: sessions that are open, attempts to connect, requests to the API. */
export type Breakable = 'sessions' | 'connects' | 'requests'

interface Disruption {
  readonly what: string
  readonly breaks: readonly Breakable[]
  /** The only branch that it is about, if it is about one. */
  readonly branch: string | undefined
  readonly since: number
  until: number
}

/** What happened in a run, in order, and what explains that something broke. */
export interface History {
  note(what: string): void
  /** Something begins that may break these; the answer ends it. */
  disrupt(what: string, breaks: readonly Breakable[], branch?: string): () => void
  /** What explains that this broke at some time between two: a disruption that lasted then. Milliseconds, as Date.now. */
  excuse(broke: Breakable, since: number, until: number, branch?: string): string | undefined
  /** All disruptions that lasted at some time between two, whatever they break. */
  lasting(since: number, until: number): readonly string[]
  /** The last lines, oldest first; all that are kept if no number is given. */
  last(lines?: number): readonly string[]
}

/** What breaks is often seen a moment after what broke it is over. */
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
