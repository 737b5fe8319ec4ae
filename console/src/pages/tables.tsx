import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { WhenAwake } from '../sql/awake.tsx'
import { ONCE, rowsOf, type SqlPlace } from '../sql/ask.ts'
import { RELATIONS, type Relation, toRelations } from '../sql/browse.ts'
import { TableRows } from '../sql/table_rows.tsx'
import '../sql/sql.css'
import type { BranchTabProps } from './branch.tsx'

const KINDS: Readonly<Record<string, string>> = { v: 'view', m: 'materialized view', f: 'foreign', p: 'partitioned' }
const MAX_SHOWN = 500

/** The tables and views of a database, and the rows of one. */
export function Tables(props: BranchTabProps) {
  return (
    <WhenAwake {...props} what="the tables">
      {(place) => <Browser key={`${place.database} ${place.role}`} place={place} />}
    </WhenAwake>
  )
}

function Browser({ place }: { readonly place: SqlPlace }) {
  const [search, setSearch] = useSearchParams()
  const [wanted, setWanted] = useState('')
  const read = useQuery({
    queryKey: ['sql', place.branch.id, place.database, place.role, 'relations'],
    queryFn: async ({ signal }) => toRelations((await rowsOf(place, RELATIONS, { signal })).rows),
    ...ONCE,
  })
  if (read.isPending) return <Loading what="Reading the tables" />
  if (read.error) return <Failure error={read.error} retry={() => void read.refetch()} />
  if (read.data.length === 0)
    return (
      <Empty title="No tables yet">
        <p>Make one on the page SQL, such as: CREATE TABLE note (id int PRIMARY KEY, text text)</p>
      </Empty>
    )
  const [schema, table] = [search.get('schema'), search.get('table')]
  const shown = read.data.find((each) => each.schema === schema && each.name === table)
  const matching = read.data.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()))
  const groups = Map.groupBy(matching.slice(0, MAX_SHOWN), (each) => each.schema)
  return (
    <div className="browser">
      <nav aria-label="Tables" className="tables">
        <input
          aria-label="Find a table"
          placeholder="Find a table"
          value={wanted}
          onChange={({ target }) => setWanted(target.value)}
        />
        {[...groups].map(([name, relations]) => (
          <section key={name} aria-label={name}>
            <h2>{name}</h2>
            {relations.map((each) => (
              <RelationButton
                key={each.name}
                relation={each}
                isCurrent={each === shown}
                choose={() =>
                  setSearch({ database: place.database, role: place.role, schema: each.schema, table: each.name })
                }
              />
            ))}
          </section>
        ))}
        {matching.length > MAX_SHOWN && <small>{matching.length - MAX_SHOWN} more: type a part of the name.</small>}
      </nav>
      {shown ? (
        <TableRows key={`${shown.schema} ${shown.name}`} place={place} relation={shown} />
      ) : (
        <p className="state">Choose a table to see its rows.</p>
      )}
    </div>
  )
}

interface RelationButtonProps {
  readonly relation: Relation
  readonly isCurrent: boolean
  readonly choose: () => void
}

function RelationButton({ relation: { name, kind }, isCurrent, choose }: RelationButtonProps) {
  return (
    <button type="button" aria-current={isCurrent ? 'true' : undefined} onClick={choose}>
      {name} <small>{KINDS[kind]}</small>
    </button>
  )
}
