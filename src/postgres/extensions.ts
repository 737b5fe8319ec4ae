/**
 * Extensions that tenants may create although their authors leave them to superusers. Those that Postgres' own control
 * files call trusted need no entry (Postgres manual, "Packaging Related Objects into an Extension"). Their scripts run
 * as the superuser of one compute, which the walls around it hold (docs/walls.md).
 */
export const ALLOWED_EXTENSIONS: ReadonlySet<string> = new Set([
  'postgis',
  'postgis_raster',
  'postgis_sfcgal',
  'postgis_topology',
  'postgis_tiger_geocoder',
  'address_standardizer',
  'address_standardizer_data_us',
  'pgrouting',
  'vector',
  'pg_partman',
  'hypopg',
])

/** Extensions that a compute cannot serve, with the reason. */
export const UNSERVED_EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['pg_cron', 'its jobs would not run while a compute is idle'],
])

/** An extension that tenants may create. */
export interface OfferedExtension {
  readonly name: string
  readonly default_version: string
}

/** The value of a key in a control file; undefined without one. */
export const controlValue = (control: string, key: string): string | undefined =>
  new RegExp(`^\\s*${key}\\s*=\\s*'?([^'\\n#]*?)'?\\s*(#.*)?$`, 'm').exec(control)?.[1]

/** Whether tenants may create the extension of a control file. */
export const isOffered = (name: string, control: string): boolean =>
  !UNSERVED_EXTENSIONS.has(name) && (ALLOWED_EXTENSIONS.has(name) || controlValue(control, 'trusted') === 'true')
