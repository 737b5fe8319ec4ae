import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useSearchParams } from 'wouter'
import type { ApiResponse } from '../../../../src/client.ts'
import { call } from '../../api.ts'
import { Field } from '../../parts/field.tsx'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import { Refused } from './refused.tsx'

type Entry = ApiResponse<'GET /audit'>['audit'][number]

const PAGE = 100
const FILTERS = ['project_id', 'api_key_id', 'person_id', 'action', 'from', 'to'] as const
type Filter = (typeof FILTERS)[number]

/** What was changed, read as a secret or refused; the filters are in the address. */
export function Audit() {
  const [address, setAddress] = useSearchParams()
  const filter = (name: Filter) => address.get(name) ?? ''
  const choose = (name: Filter, value: string) =>
    setAddress((before) => {
      if (value === '') before.delete(name)
      else before.set(name, value)
      return before
    })
  const audit = useInfiniteQuery({
    queryKey: ['audit', ...FILTERS.map(filter)],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam }) => call('GET /audit', { query: { limit: PAGE, cursor: pageParam, ...queryOf(filter) } }),
    getNextPageParam: ({ audit: page, pagination }) =>
      page.length < PAGE || !pagination ? undefined : Number(pagination.cursor),
  })
  const columns = useColumns(choose)
  const rows = audit.data?.pages.flatMap((page) => page.audit) ?? []
  return (
    <>
      <Filters filter={filter} choose={choose} rows={rows} />
      {audit.isPending && <Loading what="Reading the audit list" />}
      {audit.error && <Failure error={audit.error} retry={() => void audit.refetch()} />}
      {audit.data && rows.length === 0 && (
        <Empty title="No entries">
          <p>Take a filter away to see more.</p>
        </Empty>
      )}
      {rows.length > 0 && <Table label="Audit" rows={rows} keyOf={({ id }) => id} columns={columns} />}
      {audit.hasNextPage && (
        <button type="button" disabled={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
          Show more
        </button>
      )}
      <Refused rows={audit.data?.pages[0]?.refused ?? []} />
    </>
  )
}

function queryOf(filter: (name: Filter) => string) {
  const text = (name: Filter) => filter(name) || undefined
  const moment = (name: Filter) => (filter(name) === '' ? undefined : new Date(filter(name)).toISOString())
  return {
    project_id: text('project_id'),
    api_key_id: filter('api_key_id') === '' ? undefined : Number(filter('api_key_id')),
    person_id: text('person_id'),
    action: text('action'),
    from: moment('from'),
    to: moment('to'),
  }
}

interface FiltersProps {
  readonly filter: (name: Filter) => string
  readonly choose: (name: Filter, value: string) => void
  readonly rows: readonly Entry[]
}

const TITLES = { project_id: 'Project', api_key_id: 'API key', person_id: 'Person' } as const

function Filters({ filter, choose, rows }: FiltersProps) {
  const actions = [...new Set([...rows.map(({ action }) => action), filter('action')])].filter(Boolean).toSorted()
  return (
    <div className="choices">
      <Field label="Action">
        <select value={filter('action')} onChange={({ target }) => choose('action', target.value)}>
          <option value="">all</option>
          {actions.map((action) => (
            <option key={action}>{action}</option>
          ))}
        </select>
      </Field>
      {(['from', 'to'] as const).map((name) => (
        <Field key={name} label={name === 'from' ? 'Since' : 'Before'}>
          <input type="datetime-local" value={filter(name)} onChange={({ target }) => choose(name, target.value)} />
        </Field>
      ))}
      {(['project_id', 'api_key_id', 'person_id'] as const)
        .filter((name) => filter(name) !== '')
        .map((name) => (
          <p key={name}>
            <button type="button" onClick={() => choose(name, '')}>
              {TITLES[name]} {filter(name)} <span aria-hidden>×</span>
              <span className="hidden">: show all</span>
            </button>
          </p>
        ))}
    </div>
  )
}

function useColumns(choose: FiltersProps['choose']): readonly Column<Entry>[] {
  const keys = useQuery({ queryKey: ['keys'], queryFn: () => call('GET /api_keys', {}) })
  const only = (name: Filter, value: string, shown: string) => (
    <button type="button" className="link" title={`Only ${shown}`} onClick={() => choose(name, value)}>
      {shown}
    </button>
  )
  const keyName = (id: number) => keys.data?.find((key) => key.id === id)?.name ?? `key ${id}`
  return [
    { title: 'When', of: ({ created_at }) => <Moment at={created_at} /> },
    {
      title: 'By',
      of: ({ api_key_id: key, person_id: id, person, address }) => (
        <>
          {key !== undefined && only('api_key_id', String(key), keyName(key))}
          {id !== undefined && only('person_id', id, person?.name ?? id)}
          {key === undefined && id === undefined && 'this machine'}
          {address !== '' && <small> from {address}</small>}
        </>
      ),
    },
    {
      title: 'Action',
      of: ({ action, subject }) => (
        <>
          {only('action', action, action)}
          <br />
          <small>{subject}</small>
        </>
      ),
    },
    { title: 'Project', of: ({ project_id: id }) => id !== undefined && only('project_id', id, id) },
    {
      title: 'Answer',
      of: ({ status }) => <span className={`mark ${status < 400 ? 'finished' : 'failed'}`}>{status}</span>,
    },
  ]
}
