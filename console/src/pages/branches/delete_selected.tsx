import { useQueryClient } from '@tanstack/react-query'
import { ApiError, type Branch, type Prepared, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { FormDialog } from '../../parts/form_dialog.tsx'
import type { BranchInTree } from './tree.ts'

interface Refusal {
  readonly branch: Branch
  readonly reason: string
}

const MAX_SHOWN = 20

const removal = ({ project_id, id }: Branch) =>
  prepare('DELETE /projects/:project_id/branches/:branch_id', { params: { project_id, branch_id: id } })

/**
 * Deletes one branch after the other, children before their parents, as the API wants it. Returns those that it refused.
 * Errors: ApiError, where the API is away: the rest stays selected.
 */
async function removeAll(branches: readonly Branch[]): Promise<Refusal[]> {
  const refused: Refusal[] = []
  for (const branch of branches) {
    try {
      await removal(branch).send()
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0 || error.status === 503) throw error
      if (error.status !== 404) refused.push({ branch, reason: error.message })
    }
  }
  return refused
}

interface DeleteSelectedProps {
  readonly projectId: string
  readonly selected: readonly BranchInTree[]
  readonly done: () => void
}

/** Deletes the selected branches once their number was typed. */
export function DeleteSelected({ projectId, selected, done }: DeleteSelectedProps) {
  const queries = useQueryClient()
  if (selected.length === 0) return null
  const branches = selected.toSorted((one, other) => other.depth - one.depth).map(({ branch }) => branch)
  const [first] = branches
  const count = `${branches.length} ${branches.length === 1 ? 'branch' : 'branches'}`
  return (
    <FormDialog
      opener={`Delete ${count}`}
      title={`Delete ${count}?`}
      verb="Delete them"
      isDangerous
      confirm={String(branches.length)}
      request={(): Prepared<Refusal[]> => ({ ...removal(first as Branch), send: () => removeAll(branches) })}
      neap={() => ['branches', 'delete', '--project', projectId, (first as Branch).id]}
      done={(refused) => {
        if (refused.length === 0) done()
        return queries.invalidateQueries({ queryKey: keysOf(projectId).state })
      }}
      result={(refused) =>
        refused.length === 0 ? undefined : (
          <>
            <p>{refused.length} could not be deleted:</p>
            <ul>
              {refused.slice(0, MAX_SHOWN).map(({ branch, reason }) => (
                <li key={branch.id}>
                  {branch.name}: {reason}
                </li>
              ))}
            </ul>
          </>
        )
      }
    >
      <p>
        Their computes end at once. They can be recovered with their data for some days, 7 unless Neap is set otherwise:
      </p>
      <ul>
        {branches.slice(0, MAX_SHOWN).map(({ id, name }) => (
          <li key={id}>{name}</li>
        ))}
        {branches.length > MAX_SHOWN && <li>and {branches.length - MAX_SHOWN} more</li>}
      </ul>
      <p>
        <small>The command below deletes the first; repeat it for each.</small>
      </p>
    </FormDialog>
  )
}
