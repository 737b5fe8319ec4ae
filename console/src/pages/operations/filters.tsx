import { useSearchParams } from 'wouter'
import type { Branch } from '../../api.ts'
import { type OperationFilter, STATUSES } from '../../operation_lists.ts'
import { ACTIONS } from './words.ts'

const isStatus = (text: string): text is (typeof STATUSES)[number] => STATUSES.some((status) => status === text)

/** The filter that is kept in the address, and what changes one of its fields. */
export function useOperationFilter() {
  const [search, setSearch] = useSearchParams()
  const [branch, action, status] = ['branch', 'action', 'status'].map((name) => search.get(name) || undefined)
  const filter: OperationFilter = {
    ...(branch !== undefined && { branch }),
    ...(action !== undefined && { action }),
    ...(status !== undefined && isStatus(status) && { status }),
  }
  const change = (name: keyof OperationFilter, value: string) =>
    setSearch((before) => {
      const after = new URLSearchParams(before)
      if (value === '') after.delete(name)
      else after.set(name, value)
      return after
    })
  return { filter, change }
}

/** Chooses which operations are listed. */
export function Filters({
  filter,
  change,
  branches,
}: ReturnType<typeof useOperationFilter> & { readonly branches: readonly Branch[] }) {
  const { branch, action, status } = filter
  const isKnown = branch === undefined || branches.some(({ id }) => id === branch)
  return (
    <div className="filters" role="group" aria-label="Which operations">
      <label>
        Branch{' '}
        <select value={branch ?? ''} onChange={({ target }) => change('branch', target.value)}>
          <option value="">all</option>
          {!isKnown && <option value={branch}>{branch}</option>}
          {branches.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        Action{' '}
        <select value={action ?? ''} onChange={({ target }) => change('action', target.value)}>
          <option value="">all</option>
          {action !== undefined && ACTIONS[action] === undefined && <option value={action}>{action}</option>}
          {Object.entries(ACTIONS).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <label>
        State{' '}
        <select value={status ?? ''} onChange={({ target }) => change('status', target.value)}>
          <option value="">all</option>
          {STATUSES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    </div>
  )
}
