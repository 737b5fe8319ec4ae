import { useQuery } from '@tanstack/react-query'
import { ONCE, rowsOf, type SqlPlace } from './ask.ts'

/** Names for completion: columns by table, and functions. */
export interface SchemaNames {
  readonly tables: ReadonlyMap<string, readonly string[]>
  readonly functions: readonly string[]
}

const MAX_NAMES = 20_000

const NAMES = `
select n.nspname, c.relname, a.attname
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
 union all
(select null, proname, null
   from (select distinct p.proname from pg_catalog.pg_proc p
          where p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype and p.proname !~ '^(pg_|_)') f)
 limit ${MAX_NAMES}`

/** The names of a database, once its compute is awake: looking at the page wakes none. */
export function useSchemaNames(place: SqlPlace, isAwake: boolean) {
  return useQuery({
    queryKey: ['sql', place.branch.id, place.database, place.role, 'names'],
    queryFn: ({ signal }) => readNames(place, signal),
    enabled: isAwake && place.role !== '',
    staleTime: 60_000,
    ...ONCE,
  })
}

async function readNames(place: SqlPlace, signal: AbortSignal): Promise<SchemaNames> {
  const { rows } = await rowsOf(place, NAMES, { maxRows: MAX_NAMES, signal })
  const tables = new Map<string, string[]>()
  const functions: string[] = []
  for (const [schema, name, column] of rows) {
    if (name === null || name === undefined) continue
    if (schema === null || schema === undefined) functions.push(name)
    else {
      const key = `${schema}\0${name}`
      const columns = tables.get(key) ?? []
      if (column !== null && column !== undefined) columns.push(column)
      tables.set(key, columns)
    }
  }
  return { tables, functions }
}
