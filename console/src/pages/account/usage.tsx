import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { call } from '../../api.ts'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { RangeField, rangeQuery, useUsageRange } from '../../parts/usage_range.tsx'
import { METRIC_NAMES, sumOf, UsageTable, usedOf } from '../../parts/usage_table.tsx'

const PAGE = 50

/** What each project has used, those deleted in the last days too. */
export function AccountUsage() {
  const range = useUsageRange()
  const names = useQuery({
    queryKey: ['projects'],
    queryFn: async () => (await call('GET /projects', { query: { limit: 400 } })).projects,
    select: (projects) => new Map(projects.map(({ id, name }) => [id, name])),
  })
  const usage = useInfiniteQuery({
    queryKey: ['usage', range.granularity],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      call('GET /consumption_history/v2/projects', {
        query: { ...rangeQuery(range.granularity), metrics: METRIC_NAMES, limit: PAGE, cursor: pageParam },
      }),
    getNextPageParam: (last) => (last.projects.length < PAGE ? undefined : last.pagination?.cursor),
  })
  if (usage.isPending) return <Loading what="Reading what was used" />
  if (usage.error && !usage.data) return <Failure error={usage.error} retry={() => void usage.refetch()} />
  const rows = usage.data.pages
    .flatMap(({ projects }) => projects)
    .map(({ project_id: id, periods }) => ({
      key: id,
      title: names.data?.has(id) ? (
        <>
          <Link href={`/projects/${id}/usage`}>{names.data.get(id)}</Link> <small>{id}</small>
        </>
      ) : (
        <small>{id}</small>
      ),
      used: sumOf(periods.flatMap(({ consumption }) => consumption.map(({ metrics }) => usedOf(metrics)))),
    }))
  return (
    <>
      <div className="heading">
        <RangeField {...range} />
      </div>
      {rows.length === 0 ? (
        <Empty title="Nothing used yet">
          <p>Projects are listed here once they exist.</p>
        </Empty>
      ) : (
        <UsageTable label="Usage by project" first="Project" rows={rows} />
      )}
      {usage.hasNextPage && (
        <button type="button" disabled={usage.isFetchingNextPage} onClick={() => void usage.fetchNextPage()}>
          Show more
        </button>
      )}
    </>
  )
}
