import { useQuery } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { type Branch, call } from '../api.ts'
import { keysOf } from '../live.ts'
import { rowCount } from './amounts.ts'
import { Moment } from './time.tsx'

type Backup = ApiResponse<'GET /projects/:project_id/branches/:branch_id/backup'>
type Drill = Backup['drills'][number]

/** The facts of a branch about its backup elsewhere; none where no backups are made. */
export function BackupFacts({ branch }: { readonly branch: Branch }) {
  const { project_id, id } = branch
  const backup = useQuery({
    queryKey: [...keysOf(project_id).state, 'backup', id],
    queryFn: () =>
      call('GET /projects/:project_id/branches/:branch_id/backup', { params: { project_id, branch_id: id } }),
  }).data
  if (!backup || (backup.made_at === undefined && !backup.is_failing)) return null
  const [drill] = backup.drills
  return (
    <>
      <dt>Backup</dt>
      <dd>
        <Saved backup={backup} />
        {backup.is_failing && (
          <>
            {' '}
            <span className="mark failed">failing</span> <small>your operator sees why</small>
          </>
        )}
      </dd>
      {drill && (
        <>
          <dt>Last drill</dt>
          <dd>
            <Outcome drill={drill} />
          </dd>
        </>
      )}
    </>
  )
}

function Saved({ backup: { made_at, saved_until, is_saved } }: { readonly backup: Backup }) {
  const until = saved_until ?? made_at
  if (until === undefined) return 'none yet'
  if (is_saved) return 'has all of it'
  return (
    <>
      has what was committed until <Moment at={until} />
    </>
  )
}

/** The result of a drill: the backup was restored beside the branch, and checked. */
function Outcome({ drill: { started_at, finished_at, is_good, rows, error } }: { readonly drill: Drill }) {
  if (finished_at === undefined)
    return (
      <>
        restoring the backup, since <Moment at={started_at} />
      </>
    )
  return (
    <>
      {is_good ? 'restored, and good' : <span className="mark failed">failed</span>} {error}{' '}
      <small>
        <Moment at={finished_at} />
        {is_good && rows !== undefined && `, ${rowCount(rows)}`}
      </small>
    </>
  )
}
