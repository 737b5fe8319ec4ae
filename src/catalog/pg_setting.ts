import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

interface Kind {
  readonly name: string
  readonly vartype: 'bool' | 'enum' | 'integer' | 'real' | 'string'
  readonly unit: string | null
  readonly min_val: string | null
  readonly max_val: string | null
  readonly enumvals: string[] | null
}

interface Bounds {
  /** In the setting's own unit, as in pg_settings. */
  readonly min?: number
  readonly max?: number
  /** 0 is allowed as well and turns it off. */
  readonly orZero?: boolean
}

/** Tighter limits where Postgres accepts values with which a compute cannot start or a login fails. */
export const BOUNDS: ReadonlyMap<string, Bounds> = new Map([
  // A login runs in a transaction, which a shorter time-out would end.
  ['transaction_timeout', { min: 1_000, orZero: true }],
  // Twice the segment of 16 MB (Postgres manual, "Write Ahead Log").
  ['min_wal_size', { min: 32 }],
  ['max_wal_size', { min: 32 }],
  // Each worker has a slot in shared memory, and each session a buffer of this size.
  ['autovacuum_max_workers', { max: 64 }],
  ['track_activity_query_size', { max: 65_536 }],
])

const NUMBER = /^\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?)\s*(B|kB|MB|GB|TB|us|ms|s|min|h|d)?\s*$/
/** Factors to bytes and microseconds (Postgres manual, "Parameter Names and Values"). */
const UNITS = new Map([
  ...([
    ['B', 1],
    ['kB', 2 ** 10],
    ['MB', 2 ** 20],
    ['GB', 2 ** 30],
    ['TB', 2 ** 40],
  ] as const),
  ...([
    ['us', 1],
    ['ms', 1e3],
    ['s', 1e6],
    ['min', 60e6],
    ['h', 3600e6],
    ['d', 86400e6],
  ] as const),
] as [string, number][])
const BOOLEAN = /^\s*(on|off|true|false|yes|no|1|0)\s*$/i
// eslint-disable-next-line no-control-regex -- a line break would begin a setting of its own
const PRINTABLE = /^[^\x00-\x1f]{0,1000}$/

/**
 * The settings with invalid values, as `name = value`, checked against pg_settings of the catalog's Postgres
 * ("pg_settings" in the Postgres manual). Settings unknown to it are left to the compute's Postgres.
 */
export async function wrongPgSettings(db: Db, settings: Readonly<Record<string, string>>): Promise<string[]> {
  const names = Object.keys(settings).map((name) => name.toLowerCase())
  const rows = await db.rows<Kind>(
    sql`
      select lower(name) as name, vartype, unit, min_val, max_val, enumvals from pg_settings
       where lower(name) = any (${names})`,
  )
  const kinds = new Map(rows.map((row) => [row.name, row]))
  return Object.entries(settings)
    .filter(([name, value]) => !PRINTABLE.test(value) || !isOfKind(kinds.get(name.toLowerCase()), value))
    .map(([name, value]) => `${name} = ${JSON.stringify(value.slice(0, 100))}${boundsText(name)}`)
}

function isOfKind(kind: Kind | undefined, value: string): boolean {
  switch (kind?.vartype) {
    case 'bool':
      return BOOLEAN.test(value)
    case 'integer':
    case 'real':
      return isInRange(kind, value)
    case 'enum':
      return BOOLEAN.test(value) || (kind.enumvals ?? []).includes(value.trim().toLowerCase())
    default:
      return true
  }
}

function boundsText(name: string): string {
  const { min, max, orZero } = BOUNDS.get(name.toLowerCase()) ?? {}
  const limits = [orZero && '0', min !== undefined && `from ${min}`, max !== undefined && `up to ${max}`]
  const text = limits.filter((limit) => limit !== false && limit !== undefined).join(', or ')
  return text && ` (here: ${text})`
}

function isInRange({ name, unit, min_val, max_val }: Kind, value: string): boolean {
  const [, number, given] = NUMBER.exec(value) ?? []
  if (number === undefined) return false
  // The unit may be a multiple, as in "8kB".
  const [, times = '', base = ''] = /^(\d*)(\w+)$/.exec(unit ?? '') ?? []
  const scale = given === undefined ? 1 : (UNITS.get(given) ?? NaN) / ((UNITS.get(base) ?? NaN) * Number(times || 1))
  const amount = Number(number) * scale
  const { min = -Infinity, max = Infinity, orZero } = BOUNDS.get(name) ?? {}
  if (!(orZero && amount === 0) && (amount < min || amount > max)) return false
  return amount >= Number(min_val ?? -Infinity) && amount <= Number(max_val ?? Infinity)
}
