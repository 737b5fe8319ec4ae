/* The SQL of the page of tables. Every name and value that it holds is quoted here. */
import type { Row } from './ask.ts'
import { ident, literal, qualified } from './quote.ts'

export const PAGE_ROWS = 100

export interface Relation {
  readonly schema: string
  readonly name: string
  readonly kind: string
}

export interface TableColumn {
  readonly name: string
  readonly type: string
  readonly isNullable: boolean
  readonly hasDefault: boolean
  /** Postgres makes its values: they cannot be given. */
  readonly isGenerated: boolean
  /** The place in the primary key from 1; 0 outside of it. */
  readonly keyPlace: number
}

export interface RowFilter {
  readonly column: string
  readonly operator: string
  readonly value: string
}

/** Operators of filters: the condition on a quoted column and a literal. */
export const OPERATORS: Readonly<Record<string, (column: string, value: string) => string>> = {
  equals: (column, value) => `${column} = ${literal(value)}`,
  'is not': (column, value) => `${column} IS DISTINCT FROM ${literal(value)}`,
  'is over': (column, value) => `${column} > ${literal(value)}`,
  'is under': (column, value) => `${column} < ${literal(value)}`,
  contains: (column, value) => `strpos(lower(${column}::text), lower(${literal(value)})) > 0`,
  'is NULL': (column) => `${column} IS NULL`,
  'is not NULL': (column) => `${column} IS NOT NULL`,
}

export const RELATIONS = `
SELECT n.nspname, c.relname, c.relkind
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 ORDER BY 1, 2 LIMIT 10000`

export const toRelations = (rows: readonly Row[]): Relation[] =>
  rows.map(([schema, name, kind]) => ({ schema: schema ?? '', name: name ?? '', kind: kind ?? '' }))

export const columnsOf = (schema: string, table: string): string => `
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a',
       (SELECT k.place FROM pg_catalog.pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place)
         WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.attnum = a.attnum)
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid = ${literal(qualified(schema, table))}::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum`

export const toColumns = (rows: readonly Row[]): TableColumn[] =>
  rows.map(([name, type, nullable, hasDefault, generated, place]) => ({
    name: name ?? '',
    type: type ?? '',
    isNullable: nullable === 't',
    hasDefault: hasDefault === 't',
    isGenerated: generated === 't',
    keyPlace: Number(place ?? 0),
  }))

/** The columns of the primary key, in its order. */
export const keyOf = (columns: readonly TableColumn[]): TableColumn[] =>
  columns.filter(({ keyPlace }) => keyPlace > 0).toSorted((one, other) => one.keyPlace - other.keyPlace)

export interface PageOf {
  readonly schema: string
  readonly table: string
  readonly columns: readonly TableColumn[]
  readonly filter: RowFilter | undefined
  readonly sort: { readonly column: string; readonly descending: boolean } | undefined
  /** Where the page begins: behind a row, by its primary key, or after so many rows. */
  readonly from: { readonly behind: Row } | { readonly offset: number }
}

/** Whether pages follow each other by primary key: each is found by its index, however far it is. */
export const isByKey = ({ columns, sort }: Pick<PageOf, 'columns' | 'sort'>): boolean =>
  keyOf(columns).length > 0 && sort === undefined

/** The rows of a page, and one more where there is a next page. */
export function pageOf({ schema, table, columns, filter, sort, from }: PageOf): string {
  const key = keyOf(columns).map(({ name }) => ident(name))
  const conditions: string[] = []
  const condition = filter && OPERATORS[filter.operator]
  if (filter && condition) conditions.push(condition(ident(filter.column), filter.value))
  if ('behind' in from) {
    const values = keyValues(columns, from.behind).map(literal)
    conditions.push(`(${key.join(', ')}) > (${values.join(', ')})`)
  }
  const order = [...(sort ? [`${ident(sort.column)}${sort.descending ? ' DESC NULLS LAST' : ''}`] : []), ...key]
  return [
    `SELECT ${columns.map(({ name }) => ident(name)).join(', ')}`,
    `FROM ${qualified(schema, table)}`,
    ...(conditions.length > 0 ? [`WHERE ${conditions.join(' AND ')}`] : []),
    ...(order.length > 0 ? [`ORDER BY ${order.join(', ')}`] : []),
    `LIMIT ${PAGE_ROWS + 1}${'offset' in from && from.offset > 0 ? ` OFFSET ${from.offset}` : ''}`,
  ].join('\n')
}

const keyValues = (columns: readonly TableColumn[], row: Row): (string | null)[] =>
  keyOf(columns).map((each) => row[columns.indexOf(each)] ?? null)

/** A value for a column; undefined leaves the default. */
export type NewValue = string | null | undefined

interface OfTable {
  readonly schema: string
  readonly table: string
  readonly columns: readonly TableColumn[]
}

export function insertOf({ schema, table, columns }: OfTable, values: readonly NewValue[]): string {
  const given = columns.flatMap(({ name }, at) => {
    const value = values[at]
    return value === undefined ? [] : [{ name: ident(name), value: literal(value) }]
  })
  if (given.length === 0) return `INSERT INTO ${qualified(schema, table)} DEFAULT VALUES`
  const names = given.map(({ name }) => name).join(', ')
  return `INSERT INTO ${qualified(schema, table)} (${names})\nVALUES (${given.map(({ value }) => value).join(', ')})`
}

/** Changes one row, found by primary key, if the changed columns still are as they were shown. Undefined: no change. */
export function updateOf(of: OfTable, row: Row, values: readonly NewValue[]): string | undefined {
  const changed = of.columns.flatMap(({ name }, at) => {
    const value = values[at]
    return value === undefined || value === row[at] ? [] : [{ name: ident(name), value, was: row[at] ?? null }]
  })
  if (changed.length === 0) return undefined
  const unchanged = changed.map(({ name, was }) => `${name}::text IS NOT DISTINCT FROM ${literal(was)}`)
  return exactlyOne(
    `UPDATE ${qualified(of.schema, of.table)}\n` +
      `SET ${changed.map(({ name, value }) => `${name} = ${literal(value)}`).join(', ')}\n` +
      `WHERE ${[...keyConditions(of.columns, row), ...unchanged].join(' AND ')}`,
  )
}

export const deleteOf = ({ schema, table, columns }: OfTable, row: Row): string =>
  exactlyOne(`DELETE FROM ${qualified(schema, table)}\nWHERE ${keyConditions(columns, row).join(' AND ')}`)

const keyConditions = (columns: readonly TableColumn[], row: Row): string[] =>
  keyOf(columns).map((each) => `${ident(each.name)} = ${literal(row[columns.indexOf(each)] ?? null)}`)

/** Undoes a statement that changes another number of rows than one. */
function exactlyOne(statement: string): string {
  let tag = '$neap$'
  for (let turn = 1; statement.includes(tag); turn++) tag = `$neap${turn}$`
  return `DO ${tag}
#variable_conflict use_column
DECLARE neap_changed bigint;
BEGIN
${statement};
GET DIAGNOSTICS neap_changed = ROW_COUNT;
IF neap_changed <> 1 THEN
  RAISE EXCEPTION '% rows would have changed, not one: it was changed or deleted meanwhile', neap_changed;
END IF;
END ${tag}`
}
