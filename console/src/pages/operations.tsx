import { useQuery } from '@tanstack/react-query'
import { call, type Operation } from '../api.ts'
import { keysOf } from '../live.ts'
import { duration } from '../parts/amounts.ts'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

/** The operations of a project, the latest first, as they happen. */
export function Operations({ projectId }: { readonly projectId: string }) {
  const operations = useQuery({
    queryKey: keysOf(projectId).operations,
    queryFn: async () =>
      (await call('GET /projects/:project_id/operations', { params: { project_id: projectId }, query: { limit: 100 } }))
        .operations,
  })
  if (operations.isPending) return <Loading what="Reading the operations" />
  if (operations.error) return <Failure error={operations.error} retry={() => void operations.refetch()} />
  if (operations.data.length === 0)
    return (
      <Empty title="No operations">
        <p>What Neap does to branches and computes stands here.</p>
      </Empty>
    )
  return <Table label="Operations" columns={COLUMNS} rows={operations.data} keyOf={({ id }) => id} />
}

const COLUMNS: readonly Column<Operation>[] = [
  { title: 'Operation', of: ({ action }) => <code>{action}</code> },
  {
    title: 'State',
    of: ({ status, error, wait_reason }) => (
      <>
        <span className={`mark ${status}`}>{status}</span>
        {(error ?? wait_reason) && <small>{error ?? wait_reason}</small>}
      </>
    ),
  },
  { title: 'Of', of: ({ endpoint_id, branch_id }) => <small>{endpoint_id ?? branch_id ?? ''}</small> },
  {
    title: 'Took',
    of: ({ status, total_duration_ms }) => (status === 'finished' ? duration(total_duration_ms) : ''),
  },
  { title: 'Begun', of: ({ created_at }) => <Moment at={created_at} /> },
]
