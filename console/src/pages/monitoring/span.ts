import { useSearchParams } from 'wouter'

/** The ranges that end now, in seconds. */
export const RANGES = {
  '1h': { seconds: 3_600, title: '1 hour' },
  '6h': { seconds: 21_600, title: '6 hours' },
  '24h': { seconds: 86_400, title: '24 hours' },
  '7d': { seconds: 604_800, title: '7 days' },
  '30d': { seconds: 2_592_000, title: '30 days' },
} as const

export type RangeName = keyof typeof RANGES

const isRange = (text: string | null): text is RangeName => text !== null && Object.hasOwn(RANGES, text)

/** Nothing shorter is measured. */
const MIN_SECONDS = 300
const MAX_SECONDS = 90 * 86_400

/** A time by its ends, in seconds since 1970, or one that ends now. */
export type ChosenSpan =
  | { readonly range: RangeName }
  | { readonly range?: undefined; readonly from: number; readonly to: number }

/** The time that the charts show, which is kept in the address, and what changes it. */
export function useSpan() {
  const [search, setSearch] = useSearchParams()
  const chosen = chosenIn(search)
  return {
    chosen,
    choose: (range: RangeName) => setSearch({ range }),
    zoom: (from: number, to: number) => {
      const { from: first, to: last } = bounded(from, to)
      setSearch({ from: new Date(first * 1000).toISOString(), to: new Date(last * 1000).toISOString() })
    },
  }
}

function chosenIn(search: URLSearchParams): ChosenSpan {
  const [from, to] = ['from', 'to'].map((name) => Date.parse(search.get(name) ?? '') / 1000)
  if (from !== undefined && to !== undefined && to > from) return bounded(from, to)
  const range = search.get('range')
  return { range: isRange(range) ? range : '1h' }
}

/** A time around the same middle that is neither too short nor too long, nor in the future. */
function bounded(from: number, to: number) {
  const seconds = Math.min(Math.max(to - from, MIN_SECONDS), MAX_SECONDS)
  const last = Math.min((from + to) / 2 + seconds / 2, Date.now() / 1000)
  return { from: Math.round(last - seconds), to: Math.round(last) }
}

/** The ends of a chosen time now, in seconds since 1970. */
export function endsOf(chosen: ChosenSpan): { readonly from: number; readonly to: number } {
  if (chosen.range === undefined) return chosen
  const to = Math.floor(Date.now() / 1000)
  return { from: to - RANGES[chosen.range].seconds, to }
}
