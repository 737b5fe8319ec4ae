import { useQueryClient } from '@tanstack/react-query'
import { useLocation } from 'wouter'
import { type Branch, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Moment } from '../../parts/time.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { DeleteBranch } from '../branches/delete_branch.tsx'
import { expiryOf, Lifetime } from '../branches/lifetime.tsx'

const CHANGE = 'PATCH /projects/:project_id/branches/:branch_id'
const DEFAULT = 'POST /projects/:project_id/branches/:branch_id/set_as_default'

const paramsOf = ({ project_id, id }: Branch) => ({ project_id, branch_id: id })
const neapOf =
  ({ project_id, id }: Branch, verb: string, ...rest: readonly string[]) =>
  () => ['branches', verb, '--project', project_id, id, ...rest]

/** What can be changed of a branch. */
export function BranchSettings({ branch }: BranchTabProps) {
  const queries = useQueryClient()
  const [, navigate] = useLocation()
  const done = () => queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <>
      <Setting title="Name" state={branch.name}>
        <Rename branch={branch} done={done} />
      </Setting>
      <Setting
        title="Default"
        state={branch.default ? 'The project’s default branch.' : 'Another branch is the default.'}
      >
        <FormDialog
          action="default"
          opener="Make it the default"
          title={`Make ${branch.name} the default?`}
          verb="Make default"
          unavailable={branch.default ? 'It is the default branch already.' : whyNotDefault(branch)}
          request={() => prepare(DEFAULT, { params: paramsOf(branch) })}
          neap={neapOf(branch, 'set-default')}
          done={done}
        >
          <p>New branches begin with its data, and it cannot be deleted.</p>
        </FormDialog>
      </Setting>
      <Setting
        title="Protection"
        state={branch.protected ? 'Protected: it cannot be deleted or reset.' : 'Not protected.'}
      >
        <Protect branch={branch} done={done} />
      </Setting>
      <Setting
        title="Expiry"
        state={
          branch.expires_at === undefined ? (
            'It is kept until it is deleted.'
          ) : (
            <>
              It is deleted <Moment at={branch.expires_at} />.
            </>
          )
        }
      >
        <Expiry branch={branch} done={done} />
      </Setting>
      <Setting title="Delete" state="The branch, its compute and its data.">
        <DeleteBranch action="delete" branch={branch} onChange={() => navigate(`/projects/${branch.project_id}`)} />
      </Setting>
    </>
  )
}

interface ChangeProps {
  readonly branch: Branch
  readonly done: () => unknown
}

const whyNotDefault = ({ expires_at: at }: Branch) =>
  at === undefined ? undefined : 'The branch expires: take that away first.'

function Rename({ branch, done }: ChangeProps) {
  return (
    <FormDialog
      action="rename"
      opener="Rename"
      title={`Rename ${branch.name}`}
      verb="Rename branch"
      request={(fields) =>
        prepare(CHANGE, { params: paramsOf(branch), body: { branch: { name: textOf(fields, 'name') } } })
      }
      neap={(fields) => neapOf(branch, 'rename', textOf(fields, 'name') ?? '')()}
      done={done}
    >
      <Field label="Name" hint="Its id and its connection strings stay.">
        <input name="name" required maxLength={256} defaultValue={branch.name} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}

function Protect({ branch, done }: ChangeProps) {
  const isProtected = branch.protected
  return (
    <FormDialog
      action="protect"
      opener={isProtected ? 'Unprotect' : 'Protect'}
      title={isProtected ? `Unprotect ${branch.name}?` : `Protect ${branch.name}?`}
      verb={isProtected ? 'Unprotect branch' : 'Protect branch'}
      unavailable={isProtected ? undefined : whyNotDefault(branch)}
      request={() => prepare(CHANGE, { params: paramsOf(branch), body: { branch: { protected: !isProtected } } })}
      neap={neapOf(branch, 'update', isProtected ? '--unprotect' : '--protect')}
      done={done}
    >
      <p>A protected branch cannot be deleted, reset or let expire, and may admit fewer addresses than others.</p>
    </FormDialog>
  )
}

function Expiry({ branch, done }: ChangeProps) {
  return (
    <FormDialog
      action="expiry"
      opener="Change expiry"
      title={`When is ${branch.name} deleted?`}
      verb="Save"
      unavailable={branch.default || branch.protected ? 'A default or protected branch does not expire.' : undefined}
      request={(fields) =>
        prepare(CHANGE, { params: paramsOf(branch), body: { branch: { expires_at: expiryOf(fields) ?? null } } })
      }
      neap={(fields) => neapOf(branch, 'update', '--expires', expiryOf(fields) ?? 'never')()}
      done={done}
    >
      <Lifetime isTicked={branch.expires_at !== undefined} />
      <small>Unticked it is kept until it is deleted.</small>
    </FormDialog>
  )
}
