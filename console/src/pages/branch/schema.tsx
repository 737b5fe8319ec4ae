import { useQuery } from '@tanstack/react-query'
import { useSearchParams } from 'wouter'
import { call } from '../../api.ts'
import { BranchPicker } from '../../parts/branch_picker.tsx'
import { Field } from '../../parts/field.tsx'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { DiffView } from './diff_view.tsx'

/** How the schema of a database differs from that on another branch; which ones is in the address. */
export function BranchSchema({ branch }: BranchTabProps) {
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const [address, setAddress] = useSearchParams()
  const choose = (name: string, value: string | undefined) =>
    setAddress(
      (before) => {
        if (value === undefined) before.delete(name)
        else before.set(name, value)
        return before
      },
      { replace: true },
    )
  const databases = useQuery({
    queryKey: ['project', branch.project_id, 'databases', branch.id],
    queryFn: async () =>
      (await call('GET /projects/:project_id/branches/:branch_id/databases', { params })).databases.map(
        ({ name }) => name,
      ),
  })
  const base = address.get('base') ?? branch.parent_id
  const database = address.get('database') ?? databases.data?.[0]
  if (databases.error) return <Failure error={databases.error} retry={() => void databases.refetch()} />
  if (databases.isPending) return <Loading what="Reading the databases" />
  return (
    <>
      <div className="choices top-aligned">
        <Field label="Database">
          <select value={database} onChange={({ target }) => choose('database', target.value)}>
            {databases.data.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <BranchPicker
          projectId={branch.project_id}
          label="Compare with"
          name="base"
          hint={branch.parent_id === undefined ? 'Type a part of its name.' : 'Its parent, unless another is given.'}
          initially={address.get('base') ?? undefined}
          onChoose={(id) => id !== undefined && choose('base', id)}
        />
      </div>
      {base === undefined || database === undefined ? (
        <Empty title="Nothing to compare with">
          <p>
            {database === undefined
              ? 'The branch has no database yet.'
              : 'The branch has no parent. Name the branch to compare its schema with.'}
          </p>
        </Empty>
      ) : (
        <Diff branch={branch} base={base} database={database} />
      )}
    </>
  )
}

function Diff({ branch, base, database }: Pick<BranchTabProps, 'branch'> & { base: string; database: string }) {
  const diff = useQuery({
    queryKey: ['project', branch.project_id, 'schema diff', branch.id, base, database],
    // Reading a schema wakes computes: only who asks for it again reads it again.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    queryFn: async () => {
      const params = { project_id: branch.project_id, branch_id: branch.id }
      const query = { db_name: database, base_branch_id: base }
      return (await call('GET /projects/:project_id/branches/:branch_id/compare_schema', { params, query })).diff
    },
  })
  if (diff.isPending) return <Loading what="Comparing the schemas; computes that sleep are woken" />
  if (diff.error) return <Failure error={diff.error} retry={() => void diff.refetch()} />
  if (diff.data === '')
    return (
      <Empty title="The schemas are the same">
        <p>
          <button type="button" onClick={() => void diff.refetch()}>
            Compare again
          </button>
        </p>
      </Empty>
    )
  return <DiffView diff={diff.data} again={() => void diff.refetch()} isReading={diff.isFetching} />
}
