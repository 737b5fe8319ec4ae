import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type LazyExoticComponent, Suspense } from 'react'
import { Link } from 'wouter'
import { type Branch, call, type Endpoint, isGone } from '../api.ts'
import { keysOf, useLiveOperations } from '../live.ts'
import { Copied } from '../parts/copied.tsx'
import { lazyPage } from '../parts/lazy_page.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Gone, NotFound } from './not_found.tsx'

/** What each tab of a branch is given. */
export interface BranchTabProps {
  readonly branch: Branch
  /** The branch's compute endpoint; undefined where it has none. */
  readonly endpoint: Endpoint | undefined
}

interface BranchTab {
  readonly title: string
  readonly page: LazyExoticComponent<ComponentType<BranchTabProps>>
}

/** The tabs of a branch by their place in the address, in order; the first is the branch's own address. */
const TABS: Readonly<Record<string, BranchTab>> = {
  overview: {
    title: 'Overview',
    page: lazyPage(async () => (await import('./branch_overview.tsx')).BranchOverview),
  },
  monitoring: {
    title: 'Monitoring',
    page: lazyPage(async () => (await import('./monitoring/monitoring.tsx')).Monitoring),
  },
  sql: { title: 'SQL', page: lazyPage(async () => (await import('./sql.tsx')).Sql) },
  tables: { title: 'Tables', page: lazyPage(async () => (await import('./tables.tsx')).Tables) },
  insights: {
    title: 'Query insights',
    page: lazyPage(async () => (await import('./insights.tsx')).Insights),
  },
  connect: {
    title: 'Connect',
    page: lazyPage(async () => (await import('./branch/connect.tsx')).BranchConnect),
  },
  roles: {
    title: 'Roles and databases',
    page: lazyPage(async () => (await import('./branch/roles.tsx')).BranchRoles),
  },
  schema: {
    title: 'Schema',
    page: lazyPage(async () => (await import('./branch/schema.tsx')).BranchSchema),
  },
  restore: {
    title: 'Restore',
    page: lazyPage(async () => (await import('./branch/restore.tsx')).BranchRestore),
  },
  settings: {
    title: 'Settings',
    page: lazyPage(async () => (await import('./branch/settings.tsx')).BranchSettings),
  },
}

const [FIRST = ''] = Object.keys(TABS)

/** A branch: each of its tabs is loaded when it is opened. */
export function BranchPage(at: { readonly projectId: string; readonly branchId: string; readonly tab?: string }) {
  const { projectId, branchId, tab = FIRST } = at
  useLiveOperations(projectId)
  const params = { project_id: projectId, branch_id: branchId }
  const read = useQuery({
    queryKey: [...keysOf(projectId).state, 'branch', branchId],
    queryFn: async () => {
      const [{ branch }, { endpoints }] = await Promise.all([
        call('GET /projects/:project_id/branches/:branch_id', { params }),
        call('GET /projects/:project_id/branches/:branch_id/endpoints', { params }),
      ])
      return { branch, endpoint: endpoints[0] }
    },
  })
  const shown = TABS[tab]
  if (!shown) return <NotFound />
  if (isGone(read.error)) return <Gone what="branch" href={`/projects/${projectId}`} others="All branches" />
  if (read.isPending) return <Loading what="Reading the branch" />
  if (read.error && !read.data) return <Failure error={read.error} retry={() => void read.refetch()} />
  const { branch, endpoint } = read.data
  const address = `/projects/${projectId}/branches/${branchId}`
  const links = Object.entries(TABS).map(([name, { title }]) => ({
    title,
    href: name === FIRST ? address : `${address}/${name}`,
    isCurrent: name === tab,
  }))
  return (
    <>
      <div className="heading">
        <div>
          <Link href={`/projects/${projectId}`}>All branches</Link>
          <h1>{branch.name}</h1>
        </div>
        <Copied text={branch.id} what="the branch's id" />
      </div>
      <Tabs label="Branch" links={links} />
      <Suspense fallback={<Loading what="Loading the page" />}>
        <shown.page branch={branch} endpoint={endpoint} />
      </Suspense>
    </>
  )
}
