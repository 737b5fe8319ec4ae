import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type Branch, call, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { ActionButton } from '../../parts/action_button.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'

/** At most so many are shown. */
const MAX_SHOWN = 100

/** Deleted branches of a project that can still be recovered; not shown where there are none. */
export function DeletedBranches({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient()
  const params = { project_id: projectId }
  const deleted = useQuery({
    queryKey: [...keysOf(projectId).state, 'deleted branches'],
    queryFn: async () => {
      const query = { recoverable: true, sort_by: 'updated_at', sort_order: 'desc', limit: MAX_SHOWN } as const
      return (await call('GET /projects/:project_id/branches', { params, query })).branches
    },
  })
  if (!deleted.data || deleted.data.length === 0) return null
  const refresh = () => queries.invalidateQueries({ queryKey: keysOf(projectId).state })
  return (
    <section aria-label="Deleted branches">
      <div className="heading next">
        <h2>Deleted, recoverable</h2>
      </div>
      <Table
        label="Deleted branches"
        rows={deleted.data}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Name', of: (branch) => <Name branch={branch} /> },
          { title: 'Deleted', of: ({ recovery }) => recovery && <Moment at={recovery.deleted_at} /> },
          { title: 'Gone for good', of: ({ recovery }) => recovery && <Moment at={recovery.recoverable_until} /> },
          { title: 'Actions', isActions: true, of: (branch) => <Actions branch={branch} done={refresh} /> },
        ]}
      />
    </section>
  )
}

const Name = ({ branch: { name, id, recovery } }: { readonly branch: Branch }) => (
  <>
    {name} {name !== id && <small>{id}</small>}{' '}
    {recovery?.deletion_method === 'ttl' && <span className="mark">expired</span>}
  </>
)

function Actions({ branch, done }: { readonly branch: Branch; readonly done: () => unknown }) {
  const { project_id, id, name } = branch
  const params = { project_id, branch_id: id }
  const recover = async () => {
    await call('POST /projects/:project_id/branches/:branch_id/recover', { params })
    await done()
  }
  return (
    <>
      <ActionButton act={recover} label={`Recover ${name}`}>
        Recover
      </ActionButton>
      <FormDialog
        opener="Remove"
        title={`Remove ${name} for good?`}
        verb="Remove its data"
        isDangerous
        confirm={name}
        request={() =>
          prepare('DELETE /projects/:project_id/branches/:branch_id', { params, query: { hard_delete: true } })
        }
        neap={() => ['branches', 'delete', '--project', project_id, id, '--final']}
        done={done}
      >
        <p>Its data is removed now, and cannot be brought back.</p>
      </FormDialog>
    </>
  )
}
