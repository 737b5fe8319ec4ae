import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { textOf } from '../parts/field.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { ONCE, type Row, rowsOf, type SqlPlace } from './ask.ts'
import {
  columnsOf,
  isByKey,
  keyOf,
  OPERATORS,
  PAGE_ROWS,
  type PageOf,
  pageOf,
  type Relation,
  type RowFilter,
  type TableColumn,
  toColumns,
} from './browse.ts'
import { Grid } from './grid.tsx'
import { useRowOrder } from './row_order.ts'
import { DeleteRow, EditRow, InsertRow } from './row_forms.tsx'

/** The rows of a table or view. */
export function TableRows({ place, relation }: { readonly place: SqlPlace; readonly relation: Relation }) {
  const { schema, name } = relation
  const read = useQuery({
    queryKey: [...keysOfTable(place, relation), 'columns'],
    queryFn: async ({ signal }) => toColumns((await rowsOf(place, columnsOf(schema, name), { signal })).rows),
    ...ONCE,
  })
  if (read.isPending) return <Loading what="Reading the columns" />
  if (read.error) return <Failure error={read.error} retry={() => void read.refetch()} />
  if (read.data.length === 0) return <p className="state">This table has no columns.</p>
  return <Rows place={place} relation={relation} columns={read.data} />
}

export const keysOfTable = ({ branch, database, role }: SqlPlace, { schema, name }: Relation) => [
  'sql',
  branch.id,
  database,
  role,
  'table',
  schema,
  name,
]

type Start = PageOf['from']
const FIRST: Start = { offset: 0 }

interface RowsProps {
  readonly place: SqlPlace
  readonly relation: Relation
  readonly columns: readonly TableColumn[]
}

function Rows({ place, relation, columns }: RowsProps) {
  const queries = useQueryClient()
  const { filter, sort, setFilter, setSort } = useRowOrder(columns)
  const [starts, setStarts] = useState<readonly Start[]>([FIRST])
  const from = starts.at(-1) ?? FIRST
  const page: PageOf = { schema: relation.schema, table: relation.name, columns, filter, sort, from }
  const sql = pageOf(page)
  const read = useQuery({
    queryKey: [...keysOfTable(place, relation), 'rows', sql],
    queryFn: async ({ signal }) => (await rowsOf(place, sql, { signal })).rows,
    placeholderData: keepPreviousData,
    staleTime: 0,
    ...ONCE,
  })
  const rows = read.data?.slice(0, PAGE_ROWS) ?? []
  const isMore = (read.data?.length ?? 0) > PAGE_ROWS
  const isTable = ['r', 'p', 'f'].includes(relation.kind)
  const hasKey = keyOf(columns).length > 0
  const of = {
    place,
    schema: relation.schema,
    table: relation.name,
    columns,
    onChange: () => queries.invalidateQueries({ queryKey: keysOfTable(place, relation) }),
  }

  function begin(change: () => void): void {
    change()
    setStarts([FIRST])
  }
  function next(): void {
    const last = rows.at(-1)
    if (last) setStarts([...starts, isByKey(page) ? { behind: last } : { offset: starts.length * PAGE_ROWS }])
  }

  return (
    <div>
      <Filter
        key={JSON.stringify(filter)}
        columns={columns}
        filter={filter}
        apply={(chosen) => begin(() => setFilter(chosen))}
      />
      {read.error && <Failure error={read.error} retry={() => void read.refetch()} />}
      <Grid
        label={`Rows of ${relation.name}`}
        columns={columns}
        rows={rows}
        heading={(name) => <SortButton name={name} sort={sort} choose={(chosen) => begin(() => setSort(chosen))} />}
        {...(isTable && hasKey && { lead: (row: Row) => <RowActions of={of} row={row} /> })}
      />
      <div className="toolbar">
        {isTable && <InsertRow {...of} />}
        <button type="button" disabled={starts.length === 1} onClick={() => setStarts(starts.slice(0, -1))}>
          Previous
        </button>
        <button type="button" disabled={!isMore} onClick={next}>
          Next
        </button>
        <span role="status">
          {read.isFetching ? 'Reading …' : statusOf(rows.length, (starts.length - 1) * PAGE_ROWS)}
        </span>
        {isTable && !hasKey && (
          <small>Without a primary key rows cannot be told apart: they are not edited here.</small>
        )}
      </div>
    </div>
  )
}

const statusOf = (shown: number, before: number): string =>
  shown === 0 ? 'No rows.' : `Rows ${before + 1} to ${before + shown}`

function RowActions({ of, row }: { readonly of: Parameters<typeof InsertRow>[0]; readonly row: Row }) {
  return (
    <>
      <EditRow {...of} row={row} /> <DeleteRow {...of} row={row} />
    </>
  )
}

interface SortButtonProps {
  readonly name: string
  readonly sort: PageOf['sort']
  readonly choose: (sort: PageOf['sort']) => void
}

/** Sorts by a column: up, down, and not at all. */
function SortButton({ name, sort, choose }: SortButtonProps) {
  const mine = sort?.column === name ? sort : undefined
  const next =
    mine === undefined
      ? { column: name, descending: false }
      : mine.descending
        ? undefined
        : { column: name, descending: true }
  const order = mine === undefined ? 'not sorted' : mine.descending ? 'descending' : 'ascending'
  return (
    <button type="button" className="sort" aria-label={`Sort by ${name}: ${order}`} onClick={() => choose(next)}>
      {name} {mine && (mine.descending ? '↓' : '↑')}
    </button>
  )
}

interface FilterProps {
  readonly columns: readonly TableColumn[]
  /** The one that is applied. */
  readonly filter: RowFilter | undefined
  readonly apply: (filter: RowFilter | undefined) => void
}

function Filter({ columns, filter, apply }: FilterProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget)
    const [column = '', operator = ''] = [textOf(fields, 'column'), textOf(fields, 'operator')]
    apply({ column, operator, value: textOf(fields, 'value') ?? '' })
  }
  return (
    <form className="toolbar" aria-label="Filter" onSubmit={submit} onReset={() => apply(undefined)}>
      <select name="column" aria-label="Column" defaultValue={filter?.column}>
        {columns.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <select name="operator" aria-label="Condition" defaultValue={filter?.operator}>
        {Object.keys(OPERATORS).map((operator) => (
          <option key={operator}>{operator}</option>
        ))}
      </select>
      <input name="value" aria-label="Value" autoComplete="off" defaultValue={filter?.value} />
      <button type="submit">Filter</button>
      <button type="reset">Clear</button>
    </form>
  )
}
