import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { call } from '../../api.ts'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { type Granularity, RangeField, rangeQuery, startOf, useUsageRange } from '../../parts/usage_range.tsx'
import { METRIC_NAMES, sumOf, UsageTable, usedOf } from '../../parts/usage_table.tsx'

const PAGE = 50

/** What a project has used, over time and by branch. */
export function ProjectUsage({ projectId }: { readonly projectId: string }) {
  const range = useUsageRange()
  return (
    <>
      <div className="heading">
        <RangeField {...range} />
        <small>Days and months are those of UTC.</small>
      </div>
      <OverTime projectId={projectId} granularity={range.granularity} />
      <div className="heading next">
        <h2>By branch</h2>
      </div>
      <ByBranch projectId={projectId} granularity={range.granularity} />
    </>
  )
}

interface UsageProps {
  readonly projectId: string
  readonly granularity: Granularity
}

function OverTime({ projectId, granularity }: UsageProps) {
  const usage = useQuery({
    queryKey: ['project', projectId, 'usage', granularity],
    queryFn: () =>
      call('GET /consumption_history/v2/projects', {
        query: { ...rangeQuery(granularity), metrics: METRIC_NAMES, project_ids: [projectId], limit: 1 },
      }),
  })
  if (usage.isPending) return <Loading what="Reading what was used" />
  if (usage.error && !usage.data) return <Failure error={usage.error} retry={() => void usage.refetch()} />
  const times = usage.data.projects.flatMap(({ periods }) => periods.flatMap(({ consumption }) => consumption))
  if (times.length === 0)
    return (
      <Empty title="Nothing used yet">
        <p>Compute time is counted from the first minute in which a compute runs.</p>
      </Empty>
    )
  const rows = times.toReversed().map(({ timeframe_start: start, metrics }) => ({
    key: start,
    title: startOf(start, granularity),
    used: usedOf(metrics),
  }))
  return <UsageTable label="Usage over time" first="Since" rows={rows} />
}

function ByBranch({ projectId, granularity }: UsageProps) {
  const usage = useInfiniteQuery({
    queryKey: ['project', projectId, 'usage of branches', granularity],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      call('GET /consumption_history/v2/branches', {
        query: {
          ...rangeQuery(granularity),
          metrics: METRIC_NAMES,
          project_ids: [projectId],
          limit: PAGE,
          cursor: pageParam,
        },
      }),
    getNextPageParam: (last) => last.pagination?.cursor,
  })
  const branches = usage.data?.pages.flatMap((page) => page.branches) ?? []
  if (usage.isPending) return <Loading what="Reading what branches used" />
  if (usage.error && !usage.data) return <Failure error={usage.error} retry={() => void usage.refetch()} />
  const rows = branches.map(({ branch_id: id, periods }) => ({
    key: id,
    title: <Link href={`/projects/${projectId}/branches/${id}`}>{id}</Link>,
    used: sumOf(periods.flatMap(({ consumption }) => consumption.map(({ metrics }) => usedOf(metrics)))),
  }))
  return (
    <>
      <UsageTable label="Usage by branch" first="Branch" rows={rows} />
      {usage.hasNextPage && (
        <button type="button" disabled={usage.isFetchingNextPage} onClick={() => void usage.fetchNextPage()}>
          Show more
        </button>
      )}
    </>
  )
}
