import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { call } from '../api.ts'
import { useLiveOperations } from '../live.ts'
import { Copied } from '../parts/copied.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { Branches } from './branches.tsx'
import { NotFound } from './not_found.tsx'
import { Operations } from './operations.tsx'

const TABS = { branches: 'Branches', operations: 'Operations' } as const

const isTab = (text: string): text is keyof typeof TABS => Object.hasOwn(TABS, text)

/** A project: its branches with their endpoints, and its operations. */
export function ProjectPage({ projectId, tab }: { readonly projectId: string; readonly tab: string }) {
  useLiveOperations(projectId)
  const project = useQuery({
    queryKey: ['project', projectId],
    queryFn: async () => (await call('GET /projects/:project_id', { params: { project_id: projectId } })).project,
  })
  if (project.isPending) return <Loading what="Reading the project" />
  if (project.error) return <Failure error={project.error} retry={() => void project.refetch()} />
  if (!isTab(tab)) return <NotFound />
  return (
    <>
      <div className="heading">
        <h1>{project.data.name}</h1>
        <Copied text={projectId} what="the project's id" />
      </div>
      <nav className="tabs" aria-label="Project">
        {Object.entries(TABS).map(([name, title]) => (
          <Link
            key={name}
            href={name === 'branches' ? `/projects/${projectId}` : `/projects/${projectId}/${name}`}
            aria-current={name === tab ? 'page' : undefined}
          >
            {title}
          </Link>
        ))}
      </nav>
      {tab === 'branches' ? <Branches projectId={projectId} /> : <Operations projectId={projectId} />}
    </>
  )
}
