import { InvalidArgumentError } from 'commander'

/** Reads a whole number within these bounds. */
export function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const number = Number(text)
    if (/^-?\d+$/.test(text) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`It takes a whole number from ${least} to ${most}.`)
  }
}

export interface SizeLimits {
  readonly autoscaling_limit_min_cu: number
  readonly autoscaling_limit_max_cu: number
}

/** Reads a compute size: `0.5` is fixed, `1-4` scales between the two. */
export function computeSize(text: string): SizeLimits {
  const [, min, max = min] = /^(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))?$/.exec(text) ?? []
  if (min === undefined || max === undefined)
    throw new InvalidArgumentError('It takes a size like 0.5, or two like 1-4 to scale between.')
  return { autoscaling_limit_min_cu: Number(min), autoscaling_limit_max_cu: Number(max) }
}

/** Reads a suspend time-out: seconds, `never` or `default`. */
export function suspendTimeout(text: string): number {
  if (text === 'never') return -1
  if (text === 'default') return 0
  if (/^-?\d+$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It takes seconds, never or default.')
}

/** Reads `name=value` and adds it to the previous ones, for an option that may be repeated. */
export function assignment(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It takes name=value.')
  return { ...before, [text.slice(0, at).trim()]: text.slice(at + 1).trim() }
}

/** A column to be masked, and the expression of its new values. */
export interface ColumnMask {
  readonly database_name: string
  readonly schema_name: string
  readonly table_name: string
  readonly column_name: string
  readonly masking_function: string
}

/** Reads `database.schema.table.column=expression` and adds it to the previous ones. */
export function columnMask(text: string, before: readonly ColumnMask[] = []): readonly ColumnMask[] {
  const [, place = '', masking_function] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  const [database_name, schema_name, table_name, column_name, ...more] = place.split('.')
  if (!masking_function || !database_name || !schema_name || !table_name || !column_name || more.length > 0)
    throw new InvalidArgumentError('It takes database.schema.table.column=expression.')
  return [...before, { database_name, schema_name, table_name, column_name, masking_function }]
}

const UNITS: Record<string, number> = { m: 60, h: 3600, d: 86_400 }

/** Reads a future time: RFC 3339, or a duration from now such as `30m`, `12h`, `7d`. */
export function expiry(text: string): string {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const at = count === undefined ? Date.parse(text) : Date.now() + Number(count) * (UNITS[unit] ?? 0) * 1000
  if (Number.isNaN(at) || (count === undefined && !/^\d{4}-\d\d-\d\d/.test(text)))
    throw new InvalidArgumentError('It takes a time from now like 12h or 7d, or a moment like 2027-01-31T12:00:00Z.')
  return new Date(at).toISOString()
}

const NEVER = 'never'

/** As `expiry`, or `never`: commander takes no null. */
export const expiryOrNever = (text: string): string => (text === NEVER ? NEVER : expiry(text))

/** The value of `expiryOrNever` as the API takes it. */
export const expiresAt = (read: string | undefined): string | null | undefined => (read === NEVER ? null : read)

/** Reads a duration such as `12h` or `7d`, as seconds. */
export function seconds(text: string): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (count === undefined) throw new InvalidArgumentError('It takes a duration like 12h or 7d.')
  return Number(count) * (UNITS[unit] ?? 0)
}

/** A moment in the past: a time, or a position in the WAL. */
export type PastMoment = { readonly timestamp: string } | { readonly lsn: string }

/** Reads a time: RFC 3339, or a duration ago such as `30m`, `12h`, `7d`. Returns undefined for other text. */
function timeIn(text: string): string | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (count !== undefined) return new Date(Date.now() - Number(count) * (UNITS[unit] ?? 0) * 1000).toISOString()
  // As it is: Postgres counts microseconds, and a Date does not.
  const isTime = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/i.test(text) && !Number.isNaN(Date.parse(text))
  return isTime ? text : undefined
}

/** Reads a moment: a time, or an LSN such as `0/1A2B3C4`. */
export function pastMoment(text: string): PastMoment {
  if (/^[0-9a-f]{1,8}\/[0-9a-f]{1,8}$/i.test(text)) return { lsn: text }
  const timestamp = timeIn(text)
  if (timestamp !== undefined) return { timestamp }
  throw new InvalidArgumentError('It takes a time ago like 30m or 2h, a moment like 2027-01-31T12:00:00Z, or an LSN.')
}

/** Reads a time in the past. */
export function pastTime(text: string): string {
  const time = timeIn(text)
  if (time === undefined)
    throw new InvalidArgumentError('It takes a time ago like 30m or 2h, or a moment like 2027-01-31T12:00:00Z.')
  if (Date.parse(time) > Date.now()) throw new InvalidArgumentError('It is in the future.')
  return time
}

/** The API takes an empty text for one that was left out. */
export function nonEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.')
  return text
}
