import { type InfiniteData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import type { ApiResponse } from '../../../../src/client.ts'
import { type Branch, call, type Operation } from '../../api.ts'
import { keysOf } from '../../live.ts'

type Page = ApiResponse<'GET /projects/:project_id/branches'>
type Pages = InfiniteData<Page, string | undefined>

const FIRST_PAGE = 200
const NEXT_PAGE = 2_000
const RECENT = 50
const RECENT_MS = 5_000

/**
 * The branches of a project, page by page until all are there, parents before their children. Changes are merged into
 * them: the list is read anew only where more has changed than one page of the latest changes tells.
 */
export function useBranchList(projectId: string, search: string) {
  const queries = useQueryClient()
  const params = { project_id: projectId }
  const filter = search === '' ? {} : { search }
  const queryKey = useMemo(() => ['project', projectId, 'branch list', search], [projectId, search])
  const list = useInfiniteQuery({
    queryKey,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      call('GET /projects/:project_id/branches', {
        params,
        query: {
          ...filter,
          sort_by: 'created_at',
          sort_order: 'asc',
          limit: pageParam === undefined ? FIRST_PAGE : NEXT_PAGE,
          cursor: pageParam,
        },
      }),
    getNextPageParam: (last) => last.pagination?.next,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const { data, hasNextPage, isFetching, error, fetchNextPage } = list
  // Each page that was read, or read anew, asks for the next: a request that was cancelled in favour of another is not
  // seen to end by itself.
  useEffect(() => {
    if (hasNextPage && !isFetching && !error) void fetchNextPage()
  }, [data, hasNextPage, isFetching, error, fetchNextPage])

  const recent = useQuery({
    queryKey: [...keysOf(projectId).state, 'recent branches', search],
    refetchInterval: RECENT_MS,
    queryFn: async () => {
      const latest = { ...filter, sort_by: 'updated_at', sort_order: 'desc', limit: RECENT } as const
      const [{ branches }, { count }] = await Promise.all([
        call('GET /projects/:project_id/branches', { params, query: latest }),
        call('GET /projects/:project_id/branches/count', { params, query: filter }),
      ])
      return { branches, count }
    },
  })
  useEffect(() => {
    const before = queries.getQueryData<Pages>(queryKey)
    if (!recent.data || !before) return
    const operations = queries.getQueryData<Operation[]>(keysOf(projectId).operations) ?? []
    const after = withChanges(before, recent.data.branches, deletedBy(operations))
    const isWhole = before.pages.at(-1)?.pagination?.next === undefined
    if (after === undefined || (isWhole && sizeOf(after) !== recent.data.count))
      void queries.invalidateQueries({ queryKey })
    else if (after !== before) queries.setQueryData(queryKey, after)
  }, [queries, queryKey, projectId, recent.data])

  const branches = useMemo(() => list.data?.pages.flatMap((page) => page.branches) ?? [], [list.data])
  return { branches, count: recent.data?.count ?? branches.length, list }
}

const sizeOf = ({ pages }: Pages): number => pages.reduce((sum, { branches }) => sum + branches.length, 0)

const deletedBy = (operations: readonly Operation[]): ReadonlySet<string> =>
  new Set(operations.flatMap(({ action, branch_id: id }) => (action === 'delete_timeline' && id ? [id] : [])))

/** The pages with the latest changes; undefined where more has changed than those tell. */
function withChanges(before: Pages, latest: readonly Branch[], deleted: ReadonlySet<string>): Pages | undefined {
  const known = new Map(before.pages.flatMap(({ branches }) => branches.map((branch) => [branch.id, branch])))
  const isWhole = before.pages.at(-1)?.pagination?.next === undefined
  const changed = new Map(
    latest
      .filter(({ id, updated_at, current_state }) => {
        const old = known.get(id)
        // What is not read yet comes with a later page.
        if (!old) return isWhole
        return old.updated_at !== updated_at || old.current_state !== current_state
      })
      .map((branch) => [branch.id, branch]),
  )
  const isGone = ({ id }: Branch) => deleted.has(id) && !latest.some((each) => each.id === id)
  if (changed.size === 0 && ![...known.values()].some(isGone)) return before
  if (changed.size === RECENT) return undefined
  const added = [...changed.values()].filter(({ id }) => !known.has(id))
  const pages = before.pages.map((page, index) => ({
    ...page,
    branches: [
      ...page.branches.filter((branch) => !isGone(branch)).map((branch) => changed.get(branch.id) ?? branch),
      ...(index === before.pages.length - 1 ? added : []),
    ],
  }))
  return { ...before, pages }
}
