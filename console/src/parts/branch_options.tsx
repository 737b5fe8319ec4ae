import type { Branch } from '../api.ts'

/** Branches as the options of a select, by their names. */
export function BranchOptions({ branches }: { readonly branches: readonly Branch[] }) {
  return branches.map(({ id, name }) => (
    <option key={id} value={id}>
      {name}
    </option>
  ))
}
