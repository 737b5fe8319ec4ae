import { type Branch, prepare } from '../../api.ts'
import { BranchDeletion } from '../../parts/disk_usage.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { whyKept } from './tree.ts'

const isFinal = (fields: FormData): boolean => fields.get('final') === 'on'

/** Deletes a branch once its name was typed. */
export function DeleteBranch({
  branch,
  onChange,
  action,
}: {
  readonly branch: Branch
  readonly onChange: () => void
  readonly action?: string
}) {
  return (
    <FormDialog
      {...(action !== undefined && { action })}
      opener="Delete"
      title={`Delete ${branch.name}?`}
      verb="Delete branch"
      isDangerous
      unavailable={whyKept(branch)}
      confirm={branch.name}
      request={(fields) => {
        const params = { project_id: branch.project_id, branch_id: branch.id }
        const query = isFinal(fields) ? { hard_delete: true } : {}
        return prepare('DELETE /projects/:project_id/branches/:branch_id', { params, query })
      }}
      neap={(fields) => [
        'branches',
        'delete',
        '--project',
        branch.project_id,
        branch.id,
        ...(isFinal(fields) ? ['--final'] : []),
      ]}
      done={onChange}
    >
      <BranchDeletion branch={branch} />
      <label className="check">
        <input type="checkbox" name="final" /> Remove its data now: it cannot be recovered
      </label>
    </FormDialog>
  )
}
