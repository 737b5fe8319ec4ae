import { useId } from 'react'
import { useSearchParams } from 'wouter'
import type { Branch } from '../../api.ts'
import { type OperationFilter, STATUSES } from '../../operation_lists.ts'
import { ACTIONS } from './words.ts'

const isStatus = (text: string): text is (typeof STATUSES)[number] => STATUSES.some((status) => status === text)

/** The filter that is kept in the address, and what changes one of its fields. */
export function useOperationFilter() {
  const [search, setSearch] = useSearchParams()
  const [branch, action, status] = ['branch', 'action', 'status'].map((name) => {
    const value = search.get(name)
    return value === null || value === '' ? undefined : value
  })
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
  const others = (known: boolean, value: string | undefined) => (known ? [] : [[value ?? '', value ?? ''] as const])
  return (
    <div className="filters" role="group" aria-label="Which operations">
      <Choice
        label="Branch"
        value={branch}
        choices={[...others(isKnown, branch), ...branches.map(({ id, name }) => [id, name] as const)]}
        choose={(value) => change('branch', value)}
      />
      <Choice
        label="Action"
        value={action}
        choices={[...others(action === undefined || ACTIONS[action] !== undefined, action), ...Object.entries(ACTIONS)]}
        choose={(value) => change('action', value)}
      />
      <Choice
        label="State"
        value={status}
        choices={STATUSES.map((each) => [each, each] as const)}
        choose={(value) => change('status', value)}
      />
    </div>
  )
}

function Choice({
  label,
  value,
  choices,
  choose,
}: {
  readonly label: string
  readonly value: string | undefined
  readonly choices: readonly (readonly [value: string, shown: string])[]
  readonly choose: (value: string) => void
}) {
  const id = useId()
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value ?? ''} onChange={({ target }) => choose(target.value)}>
        <option value="">all</option>
        {choices.map(([each, shown]) => (
          <option key={each} value={each}>
            {shown}
          </option>
        ))}
      </select>
    </div>
  )
}
