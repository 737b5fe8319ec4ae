import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Branch, call, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { PastTime } from '../../parts/past_time.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Moment } from '../../parts/time.tsx'
import { LookAtMoment } from './look_at_moment.tsx'

const RESTORE = 'POST /projects/:project_id/branches/:branch_id/restore'

interface PastProps {
  readonly branch: Branch
  readonly done: () => unknown
}

/** The history of a branch: a moment of it is compared with now, and the branch restored to it. */
export function PastOfBranch({ branch, done }: PastProps) {
  const { project_id, id, name } = branch
  const params = { project_id, branch_id: id }
  const history = useQuery({
    queryKey: [...keysOf(project_id).state, 'history', id],
    queryFn: () => call('GET /projects/:project_id/branches/:branch_id/history', { params }),
  })
  const since = history.data?.since
  return (
    <Setting
      title="History"
      state={
        since === undefined ? (
          (history.error?.message ?? 'Its history begins with its next start.')
        ) : (
          <>
            Its moments are within reach, the first one <Moment at={since} />.
          </>
        )
      }
    >
      <FormDialog
        action="restore-moment"
        opener="Restore to a moment"
        title={`Restore ${name} to a moment`}
        verb="Restore branch"
        isDangerous
        confirm={name}
        unavailable={since === undefined ? 'It has no history yet.' : undefined}
        request={(fields) =>
          prepare(RESTORE, {
            params,
            body: {
              source_branch_id: id,
              source_timestamp: textOf(fields, 'time'),
              preserve_under_name: textOf(fields, 'preserve'),
            },
          })
        }
        neap={(fields) => [
          'branches',
          'restore',
          '--project',
          project_id,
          id,
          id,
          '--at',
          textOf(fields, 'time') ?? '',
          '--preserve-under-name',
          textOf(fields, 'preserve') ?? '',
        ]}
        done={done}
      >
        <p>Its data becomes what it was, and its sessions end. Its address and its passwords stay.</p>
        <ChosenMoment branch={branch} since={since} />
        <Field label="Keep its data as" hint="The name of a new branch with what it has now.">
          <input name="preserve" required maxLength={256} defaultValue={`${name}-before`} autoComplete="off" />
        </Field>
      </FormDialog>
    </Setting>
  )
}

/** A moment to choose, and how that differs from now. */
function ChosenMoment({ branch, since }: { readonly branch: Branch; readonly since: string | undefined }) {
  const [at, setAt] = useState<string>()
  return (
    <>
      <PastTime name="time" since={since} onChoose={setAt} />
      {at !== undefined && <LookAtMoment key={at} branch={branch} at={at} />}
    </>
  )
}
