/**
 * Extensions whose scripts call functions by unqualified names: as a superuser, and in a schema where a tenant may
 * have made functions that fit the call better (Postgres manual, "Security Considerations for Extension Scripts").
 */
export const GUARDED_EXTENSIONS: ReadonlySet<string> = new Set([
  'postgis',
  'postgis_raster',
  'postgis_sfcgal',
  'postgis_topology',
  'postgis_tiger_geocoder',
  'address_standardizer',
  'address_standardizer_data_us',
  'pgrouting',
  'pg_partman',
])

/** The extension that counts what statements take; its library is loaded where the server has it. */
export const STATEMENT_STATISTICS = 'pg_stat_statements'

/** The library that reads the blocks of an earlier run into the buffers. */
export const PREWARM = 'pg_prewarm'

/**
 * Extensions that tenants may create although their authors leave them to superusers. Those that Postgres' own control
 * files call trusted need no entry (Postgres manual, "Packaging Related Objects into an Extension"). Their scripts run
 * as the superuser of one compute, which the walls around it hold (docs/walls.md).
 */
export const ALLOWED_EXTENSIONS: ReadonlySet<string> = new Set([
  ...GUARDED_EXTENSIONS,
  'vector',
  'hypopg',
  STATEMENT_STATISTICS,
])

/**
 * The beginning of a guarded script: it fails where a role has made functions or operators, or types that hide others,
 * in a schema that the script searches. The locks keep other sessions from making some meanwhile. The objects of
 * extensions belong to the superuser that was made first, whose oid is 10.
 */
export const SCRIPT_GUARD = `DO LANGUAGE plpgsql $neap$
DECLARE
  made pg_catalog.text;
  -- Without pg_catalog, which is searched first.
  searched pg_catalog.oid[] := array(SELECT oid FROM pg_catalog.pg_namespace
    WHERE nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(false)));
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = 'this extension is created in a transaction of isolation level read committed only';
  END IF;
  LOCK TABLE pg_catalog.pg_proc, pg_catalog.pg_operator, pg_catalog.pg_type IN SHARE ROW EXCLUSIVE MODE;
  SELECT pg_catalog.format('%I.%I', n.nspname, o.name) INTO made
    FROM (SELECT proname AS name, pronamespace AS schema FROM pg_catalog.pg_proc
           WHERE proowner OPERATOR(pg_catalog.<>) 10::pg_catalog.oid
          UNION ALL
          SELECT oprname, oprnamespace FROM pg_catalog.pg_operator
           WHERE oprowner OPERATOR(pg_catalog.<>) 10::pg_catalog.oid
          UNION ALL
          SELECT t.typname, t.typnamespace
            FROM pg_catalog.pg_type t JOIN pg_catalog.pg_type hidden ON hidden.typname OPERATOR(pg_catalog.=) t.typname
           WHERE t.typowner OPERATOR(pg_catalog.<>) 10::pg_catalog.oid
             AND hidden.typowner OPERATOR(pg_catalog.=) 10::pg_catalog.oid
             AND hidden.typnamespace OPERATOR(pg_catalog.=) ANY (searched)) o
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) o.schema
   WHERE o.schema OPERATOR(pg_catalog.=) ANY (searched) LIMIT 1;
  IF made IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = pg_catalog.format('%s is in a schema that this extension searches', made),
      HINT = 'Create the extension in a schema without functions, operators and types of your own: '
        'CREATE EXTENSION name SCHEMA schema.';
  END IF;
END
$neap$;
`

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
