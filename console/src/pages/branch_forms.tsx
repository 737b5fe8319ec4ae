import { useQueryClient } from '@tanstack/react-query'
import { type Branch, call } from '../api.ts'
import { keysOf } from '../live.ts'
import { Field, FormDialog, textOf } from '../parts/form_dialog.tsx'

const DAY_MS = 86_400_000

/** Makes a branch with an endpoint, which expires after a day unless told otherwise. */
export function NewBranch({
  projectId,
  branches,
}: {
  readonly projectId: string
  readonly branches: readonly Branch[]
}) {
  const queries = useQueryClient()
  return (
    <FormDialog
      opener="New branch"
      title="New branch"
      verb="Create branch"
      submit={async (fields) => {
        const days = fields.get('expires') === 'on' ? 1 : undefined
        await call('POST /projects/:project_id/branches', {
          params: { project_id: projectId },
          body: {
            branch: {
              name: textOf(fields, 'name'),
              parent_id: textOf(fields, 'parent'),
              expires_at: days && new Date(Date.now() + days * DAY_MS).toISOString(),
            },
            endpoints: [{ type: 'read_write' }],
          },
        })
        await queries.invalidateQueries({ queryKey: keysOf(projectId).state })
      }}
    >
      <Field label="Name" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={256} autoComplete="off" />
      </Field>
      <Field label="Parent">
        <select name="parent" defaultValue={branches.find((each) => each.default)?.id}>
          {branches.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      <label className="check">
        <input type="checkbox" name="expires" defaultChecked /> Delete it after a day
      </label>
    </FormDialog>
  )
}

/** Deletes a branch once its name was typed. */
export function DeleteBranch({ branch, onChange }: { readonly branch: Branch; readonly onChange: () => void }) {
  const reason = branch.default ? 'The default branch cannot be deleted.' : undefined
  return (
    <span title={reason}>
      <FormDialog
        opener="Delete"
        title={`Delete ${branch.name}?`}
        verb="Delete branch"
        isDangerous
        isDisabled={reason !== undefined}
        submit={async (fields) => {
          if (textOf(fields, 'name') !== branch.name) throw new Error(`Type ${branch.name} to delete it.`)
          const params = { project_id: branch.project_id, branch_id: branch.id }
          await call('DELETE /projects/:project_id/branches/:branch_id', { params })
          onChange()
        }}
      >
        <p>Its data and its compute are deleted, and cannot be brought back.</p>
        <Field label={`Type ${branch.name}`}>
          <input name="name" autoComplete="off" />
        </Field>
      </FormDialog>
    </span>
  )
}
