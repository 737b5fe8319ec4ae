import { bytes } from './amounts.ts'
import { Field, textOf } from './field.tsx'
import { hoursOf } from './meter.tsx'

const HOUR = 3_600
const GIB = 1024 ** 3

/** The quotas of a month, as people give them: hours and GiB. */
export const QUOTAS = {
  active_time_seconds: { title: 'Active time', unit: 'hours', size: HOUR, show: hoursOf },
  compute_time_seconds: { title: 'Compute time (CU × time)', unit: 'hours', size: HOUR, show: hoursOf },
  written_data_bytes: { title: 'Written data', unit: 'GiB', size: GIB, show: bytes },
  data_transfer_bytes: { title: 'Data transfer', unit: 'GiB', size: GIB, show: bytes },
} as const

export type QuotaName = keyof typeof QUOTAS
export const QUOTA_NAMES = Object.keys(QUOTAS) as QuotaName[]

/** Amounts of quotas; 0 or absent: no limit. */
export type Quotas = { readonly [N in QuotaName]?: number }

/** A field for each quota. */
export function QuotaFields({ now }: { readonly now: Quotas }) {
  return QUOTA_NAMES.map((name) => {
    const { title, unit, size } = QUOTAS[name]
    return (
      <Field key={name} label={`${title}, ${unit} a month`} hint="Empty: no limit.">
        <input name={name} type="number" min={0} step="any" defaultValue={now[name] ? now[name] / size : ''} />
      </Field>
    )
  })
}

/** The quotas that a form gives. */
export const quotasOf = (fields: FormData): Record<QuotaName, number> =>
  Object.fromEntries(
    QUOTA_NAMES.map((name) => [name, Math.round(Number(textOf(fields, name) ?? 0) * QUOTAS[name].size)]),
  ) as Record<QuotaName, number>
