import { useQueryClient } from '@tanstack/react-query'
import { type Branch, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { BranchPicker } from '../../parts/branch_picker.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Moment } from '../../parts/time.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { PastOfBranch } from './past.tsx'
import { Snapshots } from './snapshots.tsx'

const RESET = 'POST /projects/:project_id/branches/:branch_id/reset_to_parent'
const RESTORE = 'POST /projects/:project_id/branches/:branch_id/restore'

/** How a branch is given other data: its parent's, another branch's, that of a moment or of a snapshot. */
export function BranchRestore({ branch }: BranchTabProps) {
  const queries = useQueryClient()
  const done = () => queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <>
      <Setting title="Reset from parent" state={<Origin branch={branch} />}>
        <Reset branch={branch} done={done} />
      </Setting>
      <Setting title="Restore from another branch" state="Its endpoint and its connection strings stay.">
        <Restore branch={branch} done={done} />
      </Setting>
      <PastOfBranch branch={branch} done={done} />
      <Snapshots branch={branch} />
    </>
  )
}

/** Where a branch's data comes from. */
function Origin({ branch: { parent_id: parent, last_reset_at: resetAt } }: { readonly branch: Branch }) {
  if (resetAt !== undefined)
    return (
      <>
        It was given other data <Moment at={resetAt} />.
      </>
    )
  return parent === undefined
    ? 'It is a root branch: it has no parent.'
    : 'It has what its parent had when it was made, and its own changes.'
}

interface ChangeProps {
  readonly branch: Branch
  readonly done: () => unknown
}

function Reset({ branch, done }: ChangeProps) {
  const { project_id, id, name, parent_id: parent } = branch
  return (
    <FormDialog
      action="reset"
      opener="Reset"
      title={`Reset ${name} from its parent?`}
      verb="Reset branch"
      isDangerous
      confirm={name}
      unavailable={parent === undefined ? 'It is a root branch: it has no parent.' : whyKept(branch)}
      request={() => prepare(RESET, { params: { project_id, branch_id: id } })}
      neap={() => ['branches', 'reset', '--project', project_id, id]}
      done={done}
    >
      <p>Its data is replaced by what its parent has now. Its own changes are lost, and its sessions end.</p>
    </FormDialog>
  )
}

const whyKept = ({ protected: isProtected }: Branch) =>
  isProtected ? 'A protected branch keeps its data: restore it from its parent with a name for what it has.' : undefined

function Restore({ branch, done }: ChangeProps) {
  const { project_id, id, name } = branch
  return (
    <FormDialog
      action="restore"
      opener="Restore"
      title={`Restore ${name} from another branch`}
      verb="Restore branch"
      isDangerous
      confirm={name}
      request={(fields) => {
        const source = textOf(fields, 'source')
        if (source === undefined) throw new Error('Choose the branch whose data it is given.')
        const body = { source_branch_id: source, preserve_under_name: textOf(fields, 'preserve') }
        return prepare(RESTORE, { params: { project_id, branch_id: id }, body })
      }}
      neap={(fields) => [
        'branches',
        'restore',
        '--project',
        project_id,
        id,
        textOf(fields, 'source') ?? '',
        ...(fields.get('preserve') ? ['--preserve-under-name', textOf(fields, 'preserve') ?? ''] : []),
      ]}
      done={done}
    >
      <p>Its data is replaced by what the other branch has now, and its sessions end.</p>
      <BranchPicker projectId={project_id} label="From" name="source" isRequired />
      <Field label="Keep its data as" hint="The name of a new branch with what it has now; empty to drop that.">
        <input name="preserve" maxLength={256} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}
