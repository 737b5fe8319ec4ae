import { useSearchParams } from 'wouter'
import { Field } from './field.tsx'

const DAY_MS = 86_400_000
const RANGES = {
  hourly: { title: 'by hour, the last two days', days: 2 },
  daily: { title: 'by day, the last month', days: 31 },
  monthly: { title: 'by month, the last year', days: 365 },
} as const

export type Granularity = keyof typeof RANGES

const isGranularity = (text: string | null): text is Granularity => text !== null && Object.hasOwn(RANGES, text)

/** The range of time that is shown, which the address holds. */
export function useUsageRange() {
  const [address, setAddress] = useSearchParams()
  const given = address.get('by')
  const granularity = isGranularity(given) ? given : 'daily'
  return { granularity, setGranularity: (by: string) => setAddress({ by }, { replace: true }) }
}

/** The query of a range that ends now. */
export const rangeQuery = (granularity: Granularity) => ({
  granularity,
  from: new Date(Date.now() - RANGES[granularity].days * DAY_MS).toISOString(),
  to: new Date().toISOString(),
})

/** A field for the range. */
export function RangeField({ granularity, setGranularity }: ReturnType<typeof useUsageRange>) {
  return (
    <Field label="Show">
      <select value={granularity} onChange={({ target }) => setGranularity(target.value)}>
        {Object.entries(RANGES).map(([value, { title }]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </Field>
  )
}

/** The start of an hour, day or month (UTC), in words. */
export function startOf(moment: string, granularity: Granularity): string {
  const form: Intl.DateTimeFormatOptions =
    granularity === 'monthly'
      ? { month: 'long', year: 'numeric' }
      : { dateStyle: 'medium', ...(granularity === 'hourly' && { timeStyle: 'short' }) }
  // Hours are shown in local time; days and months are counted in UTC, which the page says.
  return new Intl.DateTimeFormat(undefined, granularity === 'hourly' ? form : { ...form, timeZone: 'UTC' }).format(
    new Date(moment),
  )
}
