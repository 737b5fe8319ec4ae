import { useQueryClient } from '@tanstack/react-query'
import { type Branch, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { BranchPicker } from '../../parts/branch_picker.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { whyKept } from './tree.ts'

const HOUR_MS = 3_600_000
const LIFETIMES = { '1h': '1 hour', '1d': '1 day', '7d': '7 days', '30d': '30 days' } as const

type Lifetime = keyof typeof LIFETIMES

const hours = (lifetime: Lifetime): number => Number.parseInt(lifetime, 10) * (lifetime.endsWith('d') ? 24 : 1)

/** A lifetime that is chosen in a form; undefined where it is not ticked. */
const lifetimeOf = (fields: FormData): Lifetime | undefined =>
  fields.get('expires') === 'on' ? (textOf(fields, 'lifetime') as Lifetime | undefined) : undefined

/** When a branch with the lifetime of a form expires; undefined: never. */
export function expiryOf(fields: FormData): string | undefined {
  const lifetime = lifetimeOf(fields)
  return lifetime && new Date(Date.now() + hours(lifetime) * HOUR_MS).toISOString()
}

/** The fields of a lifetime. */
export function Lifetime({ isTicked }: { readonly isTicked: boolean }) {
  return (
    <p className="choices">
      <label className="check">
        <input type="checkbox" name="expires" defaultChecked={isTicked} /> Delete it after
      </label>
      <select name="lifetime" aria-label="Lifetime" defaultValue="1d">
        {Object.entries(LIFETIMES).map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </p>
  )
}

const given = (flag: string, value: string | undefined): string[] => (value === undefined ? [] : [flag, value])

/** Makes a branch with an endpoint, which expires after a day unless told otherwise. */
export function NewBranch({ projectId, parent }: { readonly projectId: string; readonly parent?: string }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      action="new-branch"
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
              expires_at: expiryOf(fields),
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
        ...given('--parent', textOf(fields, 'parent')),
        ...given('--expires', lifetimeOf(fields)),
        ...given('--', textOf(fields, 'name')),
      ]}
      done={() => queries.invalidateQueries({ queryKey: keysOf(projectId).state })}
    >
      <Field label="Name" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={256} autoComplete="off" />
      </Field>
      <BranchPicker
        projectId={projectId}
        label="Parent"
        name="parent"
        initially={parent}
        hint="Whose data it begins with: the default branch's where this is empty."
      />
      <Lifetime isTicked />
    </FormDialog>
  )
}

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
