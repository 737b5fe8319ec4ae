import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call } from '../api.ts'
import { Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

type Deleted = ApiResponse<'GET /projects'>['projects'][number]

const QUERY = {
  queryKey: ['projects', 'deleted'],
  queryFn: async () => (await call('GET /projects', { query: { limit: 100, recoverable: true } })).projects,
}

/** Deleted projects that can still be recovered; not shown where there are none. */
export function DeletedProjects() {
  const deleted = useQuery(QUERY)
  if (!deleted.data || deleted.data.length === 0) return null
  return (
    <section aria-label="Deleted projects">
      <div className="heading next">
        <h2>Deleted, recoverable</h2>
      </div>
      <Table
        label="Deleted projects"
        rows={deleted.data}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Name', of: ({ name, id }) => <Name name={name} id={id} /> },
          { title: 'Deleted', of: ({ deleted_at: at }) => at !== undefined && <Moment at={at} /> },
          { title: 'Gone for good', of: ({ recoverable_until: at }) => at !== undefined && <Moment at={at} /> },
          { title: 'Actions', isActions: true, of: (project) => <Recover project={project} /> },
        ]}
      />
    </section>
  )
}

const Name = ({ name, id }: { readonly name: string; readonly id: string }) => (
  <>
    {name} <small>{id}</small>
  </>
)

function Recover({ project }: { readonly project: Deleted }) {
  const queries = useQueryClient()
  const recover = useMutation({
    mutationFn: () => call('POST /projects/:project_id/recover', { params: { project_id: project.id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['projects'] }),
  })
  return (
    <>
      {recover.error && <small role="alert">{recover.error.message}</small>}
      <button type="button" disabled={recover.isPending} onClick={() => recover.mutate()}>
        Recover
      </button>
    </>
  )
}
