import { textOf } from '../../parts/field.tsx'

const HOUR_MS = 3_600_000
const LIFETIMES = { '1h': '1 hour', '1d': '1 day', '7d': '7 days', '30d': '30 days' } as const

type Lifetime = keyof typeof LIFETIMES

const hours = (lifetime: Lifetime): number => Number.parseInt(lifetime, 10) * (lifetime.endsWith('d') ? 24 : 1)

/** A lifetime that is chosen in a form; undefined where it is not ticked. */
export const lifetimeOf = (fields: FormData): Lifetime | undefined =>
  fields.get('expires') === 'on' ? (textOf(fields, 'lifetime') as Lifetime | undefined) : undefined

/** When a branch with the lifetime of a form expires; undefined: never. */
export function expiryOf(fields: FormData): string | undefined {
  const lifetime = lifetimeOf(fields)
  return lifetime && new Date(Date.now() + hours(lifetime) * HOUR_MS).toISOString()
}

/** The fields of a lifetime. */
export function Lifetime({ isTicked }: { readonly isTicked: boolean }) {
  return (
    <p className="choices">
      <label className="check">
        <input type="checkbox" name="expires" defaultChecked={isTicked} /> Delete it after
      </label>
      <select name="lifetime" aria-label="Lifetime" defaultValue="1d">
        {Object.entries(LIFETIMES).map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </p>
  )
}

/** A flag of a command with its value; none where there is no value. */
export const given = (flag: string, value: string | undefined): string[] => (value === undefined ? [] : [flag, value])
