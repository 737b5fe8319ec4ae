import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { type Branch, call, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Copied } from '../../parts/copied.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import type { BranchTabProps } from '../branch.tsx'
import { Databases } from './databases.tsx'

type Role = ApiResponse<'GET /projects/:project_id/branches/:branch_id/roles'>['roles'][number]

const ONE = 'DELETE /projects/:project_id/branches/:branch_id/roles/:role_name'
const RESET = 'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password'
const REVEAL = 'GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password'

const on = ({ project_id, id }: Branch) => ['--project', project_id, '--branch', id]

/** The roles of a branch and its databases, those that were made by SQL too. */
export function BranchRoles({ branch }: BranchTabProps) {
  const queries = useQueryClient()
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const roles = useQuery({
    queryKey: [...keysOf(branch.project_id).state, 'roles', branch.id],
    queryFn: async () => (await call('GET /projects/:project_id/branches/:branch_id/roles', { params })).roles,
  })
  if (roles.isPending) return <Loading what="Reading the roles" />
  if (roles.error && !roles.data) return <Failure error={roles.error} retry={() => void roles.refetch()} />
  const done = () => queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <>
      <div className="heading">
        <h2>Roles</h2>
        <NewRole branch={branch} done={done} />
      </div>
      <Table
        label="Roles"
        keyOf={({ name }) => name}
        rows={roles.data}
        columns={[
          { title: 'Role', of: ({ name }) => <Copied text={name} what="the role’s name" /> },
          {
            title: 'Logs in',
            of: ({ authentication_method: method }) => (method === 'no_login' ? 'no' : 'with a password'),
          },
          { title: 'Created', of: ({ created_at }) => <Moment at={created_at} /> },
          {
            title: 'Actions',
            isActions: true,
            of: (role) => <RoleActions branch={branch} role={role} done={done} />,
          },
        ]}
      />
      <Databases branch={branch} roles={roles.data.map(({ name }) => name)} />
    </>
  )
}

interface ChangeProps {
  readonly branch: Branch
  readonly done: () => unknown
}

function NewRole({ branch, done }: ChangeProps) {
  return (
    <FormDialog
      action="new-role"
      opener="New role"
      title="New role"
      verb="Create role"
      request={(fields) =>
        prepare('POST /projects/:project_id/branches/:branch_id/roles', {
          params: { project_id: branch.project_id, branch_id: branch.id },
          body: { role: { name: textOf(fields, 'name') ?? '', no_login: fields.get('login') !== 'on' || undefined } },
        })
      }
      neap={(fields) => [
        'roles',
        'create',
        ...on(branch),
        ...(fields.get('login') === 'on' ? [] : ['--no-login']),
        '--',
        textOf(fields, 'name') ?? '',
      ]}
      done={done}
      result={({ role }) => role.password && <Password role={role.name} password={role.password} />}
    >
      <Field label="Name">
        <input name="name" required maxLength={63} autoComplete="off" />
      </Field>
      <label className="check">
        <input type="checkbox" name="login" defaultChecked /> It logs in, with a password of Neap’s
      </label>
    </FormDialog>
  )
}

/** A password, shown until the dialog is closed. */
function Password({ role, password }: { readonly role: string; readonly password: string }) {
  return (
    <>
      <p>The password of {role}:</p>
      <p>
        <Copied text={password} what="the password" />
      </p>
    </>
  )
}

function RoleActions({ branch, role, done }: ChangeProps & { readonly role: Role }) {
  const params = { project_id: branch.project_id, branch_id: branch.id, role_name: role.name }
  const noLogin = role.authentication_method === 'no_login' ? 'The role does not log in.' : undefined
  return (
    <>
      <FormDialog
        opener="Show password"
        title={`The password of ${role.name}`}
        verb="Show it"
        unavailable={noLogin}
        request={() => prepare(REVEAL, { params })}
        neap={() => ['roles', 'reveal-password', ...on(branch), '--', role.name]}
        result={({ password }) => <Password role={role.name} password={password} />}
      >
        <p>That it was shown is in the audit list.</p>
      </FormDialog>
      <FormDialog
        opener="Reset password"
        title={`Give ${role.name} a new password?`}
        verb="Reset password"
        unavailable={noLogin}
        request={() => prepare(RESET, { params })}
        neap={() => ['roles', 'reset-password', ...on(branch), '--', role.name]}
        done={done}
        result={({ role: { password } }) => password && <Password role={role.name} password={password} />}
      >
        <p>Programs that use the present one are refused from then on. Open sessions stay.</p>
      </FormDialog>
      <FormDialog
        opener="Delete"
        title={`Delete the role ${role.name}?`}
        verb="Delete role"
        isDangerous
        confirm={role.name}
        request={() => prepare(ONE, { params })}
        neap={() => ['roles', 'delete', ...on(branch), '--', role.name]}
        done={done}
      >
        <p>What it owns goes to the owner of its database. A role that owns a database stays.</p>
      </FormDialog>
    </>
  )
}
