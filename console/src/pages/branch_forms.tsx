import { useQueryClient } from '@tanstack/react-query'
import { type Branch, prepare } from '../api.ts'
import { keysOf } from '../live.ts'
import { BranchOptions } from '../parts/branch_options.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'

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
      request={(fields) =>
        prepare('POST /projects/:project_id/branches', {
          params: { project_id: projectId },
          body: {
            branch: {
              name: textOf(fields, 'name'),
              parent_id: textOf(fields, 'parent'),
              expires_at: expires(fields) ? new Date(Date.now() + DAY_MS).toISOString() : undefined,
            },
            endpoints: [{ type: 'read_write' }],
          },
        })
      }
      neap={(fields) => [
        'branches',
        'create',
        '--project',
        projectId,
        ...(textOf(fields, 'parent') === undefined ? [] : ['--parent', textOf(fields, 'parent') ?? '']),
        ...(expires(fields) ? ['--expires', '1d'] : []),
        ...(textOf(fields, 'name') === undefined ? [] : ['--', textOf(fields, 'name') ?? '']),
      ]}
      done={() => queries.invalidateQueries({ queryKey: keysOf(projectId).state })}
    >
      <Field label="Name" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={256} autoComplete="off" />
      </Field>
      <Field label="Parent">
        <select name="parent" defaultValue={branches.find((each) => each.default)?.id}>
          <BranchOptions branches={branches} />
        </select>
      </Field>
      <label className="check">
        <input type="checkbox" name="expires" defaultChecked /> Delete it after a day
      </label>
    </FormDialog>
  )
}

const expires = (fields: FormData): boolean => fields.get('expires') === 'on'

/** Deletes a branch once its name was typed. */
export function DeleteBranch({ branch, onChange }: { readonly branch: Branch; readonly onChange: () => void }) {
  return (
    <FormDialog
      opener="Delete"
      title={`Delete ${branch.name}?`}
      verb="Delete branch"
      isDangerous
      unavailable={branch.default ? 'The default branch cannot be deleted.' : undefined}
      confirm={branch.name}
      request={() => {
        const params = { project_id: branch.project_id, branch_id: branch.id }
        return prepare('DELETE /projects/:project_id/branches/:branch_id', { params })
      }}
      neap={() => ['branches', 'delete', '--project', branch.project_id, branch.id]}
      done={onChange}
    >
      <p>Its data and its compute are deleted, and cannot be brought back.</p>
    </FormDialog>
  )
}
