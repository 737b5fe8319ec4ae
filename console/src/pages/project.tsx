import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type LazyExoticComponent, Suspense } from 'react'
import { call, isGone } from '../api.ts'
import { useLiveOperations } from '../live.ts'
import { Copied } from '../parts/copied.tsx'
import { lazyPage } from '../parts/lazy_page.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Gone, NotFound } from './not_found.tsx'

interface ProjectTab {
  readonly title: string
  readonly page: LazyExoticComponent<ComponentType<{ readonly projectId: string }>>
}

/** The tabs of a project by their place in the address, in order; the first is the project's own address. */
const TABS: Readonly<Record<string, ProjectTab>> = {
  branches: {
    title: 'Branches',
    page: lazyPage(async () => (await import('./branches/branches.tsx')).Branches),
  },
  operations: {
    title: 'Operations',
    page: lazyPage(async () => (await import('./operations.tsx')).Operations),
  },
  usage: {
    title: 'Usage',
    page: lazyPage(async () => (await import('./project/usage.tsx')).ProjectUsage),
  },
  settings: {
    title: 'Settings',
    page: lazyPage(async () => (await import('./project/settings.tsx')).ProjectSettings),
  },
}

const [FIRST = ''] = Object.keys(TABS)

/** A project: each of its tabs is loaded when it is opened. */
export function ProjectPage({ projectId, tab = FIRST }: { readonly projectId: string; readonly tab?: string }) {
  useLiveOperations(projectId)
  const project = useQuery({
    queryKey: ['project', projectId],
    queryFn: async () => (await call('GET /projects/:project_id', { params: { project_id: projectId } })).project,
  })
  const shown = TABS[tab]
  if (!shown) return <NotFound />
  if (isGone(project.error)) return <Gone what="project" href="/" others="All projects" />
  if (project.isPending) return <Loading what="Reading the project" />
  if (project.error && !project.data) return <Failure error={project.error} retry={() => void project.refetch()} />
  const links = Object.entries(TABS).map(([name, { title }]) => ({
    title,
    href: name === FIRST ? `/projects/${projectId}` : `/projects/${projectId}/${name}`,
    isCurrent: name === tab,
  }))
  return (
    <>
      <div className="heading">
        <h1>{project.data.name}</h1>
        <Copied text={projectId} what="the project's id" />
      </div>
      <Tabs label="Project" links={links} />
      <Suspense fallback={<Loading what="Loading the page" />}>
        <shown.page projectId={projectId} />
      </Suspense>
    </>
  )
}
