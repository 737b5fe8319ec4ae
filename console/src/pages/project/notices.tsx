import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { call } from '../../api.ts'
import { bytes } from '../../parts/amounts.ts'
import { hoursOf } from '../../parts/meter.tsx'
import { Moment } from '../../parts/time.tsx'

const shown = (limit: string, amount: number) => (limit.endsWith('_seconds') ? hoursOf(amount) : bytes(amount))

/** The limits that are almost used up: those of a project, or all of the account. */
export function Notices({ projectId }: { readonly projectId?: string }) {
  const notices = useQuery({
    queryKey: ['notices'],
    queryFn: async () => (await call('GET /notices', {})).notices,
  })
  const those = notices.data?.filter(({ project_id: id }) => projectId === undefined || id === projectId) ?? []
  if (those.length === 0) return null
  return (
    <ul className="notices" aria-label="Notices">
      {those.map(({ id, limit, level, used, most, full_at, project_id, branch_id }) => (
        <li key={id}>
          <strong>{level} %</strong> of {limit.replace(/_(seconds|bytes)$/, '').replaceAll('_', ' ')} is used:{' '}
          {shown(limit, used)} of {shown(limit, most)}
          {project_id !== undefined && (
            <>
              {' '}
              in{' '}
              <Link href={`/projects/${project_id}${branch_id === undefined ? '' : `/branches/${branch_id}`}`}>
                {branch_id ?? project_id}
              </Link>
            </>
          )}
          {full_at !== undefined && (
            <>
              ; used up <Moment at={full_at} />
            </>
          )}
          .
        </li>
      ))}
    </ul>
  )
}
