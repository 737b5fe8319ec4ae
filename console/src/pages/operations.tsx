import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { call } from '../api.ts'
import { keysOf } from '../live.ts'
import { type OperationFilter, PAGE } from '../operation_lists.ts'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { Filters, useOperationFilter } from './operations/filters.tsx'
import { OperationList } from './operations/list.tsx'
import './operations/operations.css'

/** The operations of a project, the latest first, as they happen. */
export function Operations({ projectId }: { readonly projectId: string }) {
  const { filter, change } = useOperationFilter()
  const branches = useBranches(projectId)
  const read = useOperations(projectId, filter)
  const operations = useMemo(() => read.data?.pages.flatMap((page) => page.operations) ?? [], [read.data])
  const names = useMemo(() => new Map(branches.map(({ id, name }) => [id, name])), [branches])
  const canReadMore = read.hasNextPage && !read.isFetching
  const isFiltered = Object.keys(filter).length > 0
  return (
    <>
      <Filters filter={filter} change={change} branches={branches} />
      {read.error && <Failure error={read.error} retry={() => void read.refetch()} />}
      {read.isPending && <Loading what="Reading the operations" />}
      {read.data && operations.length === 0 && (
        <Empty title={isFiltered ? 'No such operations' : 'No operations'}>
          <p>
            {isFiltered
              ? 'None has this branch, action and state.'
              : 'What Neap does to branches and computes stands here.'}
          </p>
        </Empty>
      )}
      {operations.length > 0 && (
        <OperationList
          operations={operations}
          branchNames={names}
          readMore={canReadMore ? () => void read.fetchNextPage() : undefined}
          isWhole={!read.hasNextPage}
        />
      )}
    </>
  )
}

/** The operations that pass a filter, page by page; each list is changed where the stream tells of a change. */
function useOperations(projectId: string, filter: OperationFilter) {
  return useInfiniteQuery({
    queryKey: [...keysOf(projectId).operations, filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam: cursor }) =>
      call('GET /projects/:project_id/operations', {
        params: { project_id: projectId },
        query: { limit: PAGE, cursor, branch_id: filter.branch, action: filter.action, status: filter.status },
      }),
    getNextPageParam: ({ operations, pagination }) => (operations.length < PAGE ? undefined : pagination?.cursor),
  })
}

/** So many branches have their names in the list, those changed last; others are shown by their ids. */
const MAX_BRANCHES = 400

function useBranches(projectId: string) {
  const read = useQuery({
    queryKey: [...keysOf(projectId).state, 'branch names'],
    queryFn: async () => {
      const query = { limit: MAX_BRANCHES, sort_by: 'updated_at', sort_order: 'desc' } as const
      return (await call('GET /projects/:project_id/branches', { params: { project_id: projectId }, query })).branches
    },
  })
  return useMemo(() => read.data ?? [], [read.data])
}
