import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { count, duration } from '../parts/amounts.ts'
import { ONCE, rowsOf, SqlError, type SqlPlace } from '../sql/ask.ts'
import { WhenAwake } from '../sql/awake.tsx'
import { Plan, readPlan } from '../sql/plan.tsx'
import {
  CREATE_EXTENSION,
  EXTENSION,
  type Extension,
  GENERIC_PLAN_SINCE,
  isOrder,
  ORDERS,
  planOf,
  type Statement,
  statementsBy,
  toExtension,
  toStatements,
} from '../sql/statements.ts'
import '../sql/sql.css'
import type { BranchTabProps } from './branch.tsx'

/** SQLSTATE of a view whose library the compute has not loaded. */
const NOT_LOADED = '55000'

/** What the statements of a database take, from pg_stat_statements. */
export function Insights(props: BranchTabProps) {
  return (
    <WhenAwake {...props} what="the statistics">
      {(place) => <Statistics key={`${place.database} ${place.role}`} place={place} />}
    </WhenAwake>
  )
}

const keyOf = ({ branch, database, role }: SqlPlace) => ['sql', branch.id, database, role, 'statements'] as const

function Statistics({ place }: { readonly place: SqlPlace }) {
  const read = useQuery({
    queryKey: [...keyOf(place), 'extension'],
    queryFn: async ({ signal }) => toExtension((await rowsOf(place, EXTENSION, { signal })).rows[0]),
    ...ONCE,
  })
  if (read.isPending) return <Loading what="Reading the statistics" />
  if (read.error) return <Failure error={read.error} retry={() => void read.refetch()} />
  const { schema } = read.data
  return schema === undefined ? (
    <Create place={place} />
  ) : (
    <Statements place={place} extension={{ ...read.data, schema }} />
  )
}

function Create({ place }: { readonly place: SqlPlace }) {
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: () => rowsOf(place, CREATE_EXTENSION, { readOnly: false }),
    onSuccess: () => queries.invalidateQueries({ queryKey: keyOf(place) }),
  })
  return (
    <Empty title="Statements are counted, but not shown here yet">
      <p>
        The database {place.database} needs the extension pg_stat_statements: <code>{CREATE_EXTENSION}</code>
      </p>
      {create.error && <p role="alert">{create.error.message}</p>}
      <button type="button" className="main" disabled={create.isPending} onClick={() => create.mutate()}>
        Create the extension
      </button>
    </Empty>
  )
}

interface StatementsProps {
  readonly place: SqlPlace
  readonly extension: Extension & { readonly schema: string }
}

function Statements({ place, extension: { schema, serverVersion } }: StatementsProps) {
  const [search, setSearch] = useSearchParams()
  const given = search.get('by')
  const order = isOrder(given) ? given : 'total_exec_time'
  const read = useQuery({
    queryKey: [...keyOf(place), order],
    queryFn: async ({ signal }) => toStatements((await rowsOf(place, statementsBy(schema, order), { signal })).rows),
    ...ONCE,
  })
  if (read.error instanceof SqlError && read.error.report.code === NOT_LOADED)
    return <p className="state">This compute started before statements were counted. Restart it to count them.</p>
  return (
    <div className="insights">
      <div className="toolbar">
        <label>
          Sorted by{' '}
          <select
            value={order}
            onChange={({ target }) => setSearch((before) => ({ ...Object.fromEntries(before), by: target.value }))}
          >
            {Object.entries(ORDERS).map(([column, title]) => (
              <option key={column} value={column}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => void read.refetch()}>
          Read again
        </button>
      </div>
      {read.isPending && <Loading what="Reading the statistics" />}
      {read.error && <Failure error={read.error} retry={() => void read.refetch()} />}
      {read.data?.length === 0 && <Empty title="No statements yet">Run some, then read again.</Empty>}
      {read.data && read.data.length > 0 && (
        <Table label="Statements" columns={columnsOf(place, serverVersion)} rows={read.data} keyOf={({ id }) => id} />
      )}
    </div>
  )
}

const columnsOf = (place: SqlPlace, serverVersion: number): readonly Column<Statement>[] => [
  {
    title: 'Statement',
    of: ({ query, role }) => (
      <>
        <code tabIndex={0}>{query}</code>
        <small>as {role}</small>
        <PlanOfStatement place={place} query={query} serverVersion={serverVersion} />
      </>
    ),
  },
  { title: 'Total', of: ({ totalMs }) => duration(totalMs) },
  { title: 'Calls', of: ({ calls }) => count(calls) },
  { title: 'Mean', of: ({ meanMs }) => duration(meanMs) },
  { title: 'Rows', of: ({ rows }) => count(rows) },
  {
    title: 'Cached',
    of: ({ cachedPercent }) => (cachedPercent === undefined ? '–' : `${Math.round(cachedPercent)} %`),
  },
]

interface PlanProps {
  readonly place: SqlPlace
  readonly query: string
  readonly serverVersion: number
}

/** The plan of a statement without its parameters, read when it is asked for. */
function PlanOfStatement({ place, query, serverVersion }: PlanProps) {
  const [isOpen, setOpen] = useState(false)
  const read = useQuery({
    queryKey: [...keyOf(place), 'plan', query],
    queryFn: async ({ signal }) => readPlan((await rowsOf(place, planOf(query), { signal })).rows[0]?.[0]) ?? null,
    enabled: isOpen,
    ...ONCE,
  })
  const isTooOld = serverVersion < GENERIC_PLAN_SINCE
  const why = isTooOld ? `Postgres ${serverVersion} plans no statement without its parameters; 16 does.` : undefined
  return (
    <div>
      <button type="button" disabled={isTooOld} title={why} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'Hide the plan' : 'Plan'}
      </button>
      {isOpen && read.isLoading && <Loading what="Planning" />}
      {isOpen && read.error && <p role="alert">It cannot be planned: {read.error.message}</p>}
      {isOpen && read.data && <Plan plan={read.data} />}
    </div>
  )
}
