import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useLocation } from 'wouter'
import type { ApiResponse } from '../../../src/client.ts'
import { call, prepare } from '../api.ts'
import { bytes } from '../parts/amounts.ts'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'
import { DeletedProjects } from './projects_deleted.tsx'

type Project = ApiResponse<'GET /projects'>['projects'][number]

/** No stream tells of all projects. */
const EVERY_MS = 15_000

/** The projects of the organization. */
export function Projects() {
  const projects = useQuery({
    queryKey: ['projects'],
    refetchInterval: EVERY_MS,
    queryFn: async () => (await call('GET /projects', { query: { limit: 400, summary: true } })).projects,
  })
  return (
    <>
      <div className="heading">
        <h1>Projects</h1>
        <NewProject />
      </div>
      {projects.data?.length === 0 && (
        <Empty title="No projects yet">
          <p>A project holds a database, its branches and their computes. The first is made in a second.</p>
        </Empty>
      )}
      {projects.data && projects.data.length > 0 && (
        <Table label="Projects" columns={COLUMNS} rows={projects.data} keyOf={({ id }) => id} />
      )}
      <DeletedProjects />
      {projects.isPending && <Loading what="Reading the projects" />}
      {projects.error && <Failure error={projects.error} retry={() => void projects.refetch()} />}
    </>
  )
}

const COLUMNS: readonly Column<Project>[] = [
  {
    title: 'Name',
    of: ({ id, name }) => (
      <>
        <Link href={`/projects/${id}`}>{name}</Link> <small>{id}</small>
      </>
    ),
  },
  { title: 'Postgres', of: ({ pg_version }) => pg_version },
  { title: 'Branches', of: ({ summary }) => summary?.branches ?? 0 },
  { title: 'Computes', of: ({ summary }) => <States summary={summary} /> },
  {
    title: 'Size',
    of: ({ summary, branch_logical_size_limit_bytes: limit }) => (
      <>
        {summary?.logical_size_bytes ? bytes(summary.logical_size_bytes) : '–'}{' '}
        {limit > 0 && <small>at most {bytes(limit)} each</small>}
      </>
    ),
  },
  { title: 'Active this month', of: ({ active_time }) => `${Math.round(active_time / 60)} min` },
  { title: 'Created', of: ({ created_at }) => <Moment at={created_at} /> },
]

const STATES = [
  ['active', 'active'],
  ['changing', 'starting'],
  ['idle', 'idle'],
  ['stopped', 'stopped'],
] as const

/** How many computes are in which state. */
function States({ summary }: { readonly summary: Project['summary'] | undefined }) {
  const found = STATES.filter(([state]) => (summary?.endpoints[state] ?? 0) > 0)
  if (found.length === 0) return <small>none</small>
  return (
    <span className="branch">
      {found.map(([state, mark]) => (
        <span key={state} className={`mark ${mark}`}>
          {summary?.endpoints[state]} {state}
        </span>
      ))}
    </span>
  )
}

function NewProject() {
  const queries = useQueryClient()
  const [, navigate] = useLocation()
  return (
    <FormDialog
      action="new-project"
      opener="New project"
      title="New project"
      verb="Create project"
      request={(fields) => prepare('POST /projects', { body: { project: { name: textOf(fields, 'name') } } })}
      neap={(fields) => ['projects', 'create', ...(textOf(fields, 'name') ? ['--', textOf(fields, 'name') ?? ''] : [])]}
      done={async ({ project }) => {
        await queries.invalidateQueries({ queryKey: ['projects'] })
        navigate(`/projects/${project.id}`)
      }}
    >
      <Field label="Name" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={64} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}
