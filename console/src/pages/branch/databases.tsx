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

type Database = ApiResponse<'GET /projects/:project_id/branches/:branch_id/databases'>['databases'][number]

const CHANGE = 'PATCH /projects/:project_id/branches/:branch_id/databases/:database_name'
const DELETE = 'DELETE /projects/:project_id/branches/:branch_id/databases/:database_name'

const on = ({ project_id, id }: Branch) => ['--project', project_id, '--branch', id]

interface DatabasesProps {
  readonly branch: Branch
  readonly roles: readonly string[]
}

/** The databases of a branch. */
export function Databases({ branch, roles }: DatabasesProps) {
  const queries = useQueryClient()
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const databases = useQuery({
    queryKey: [...keysOf(branch.project_id).state, 'databases', branch.id],
    queryFn: async () => (await call('GET /projects/:project_id/branches/:branch_id/databases', { params })).databases,
  })
  if (databases.isPending) return <Loading what="Reading the databases" />
  if (databases.error && !databases.data)
    return <Failure error={databases.error} retry={() => void databases.refetch()} />
  const done = () => queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  return (
    <>
      <div className="heading next">
        <h2>Databases</h2>
        <NewDatabase branch={branch} roles={roles} done={done} />
      </div>
      <Table
        label="Databases"
        keyOf={({ name }) => name}
        rows={databases.data}
        columns={[
          { title: 'Database', of: ({ name }) => <Copied text={name} what="the database’s name" /> },
          { title: 'Owner', of: ({ owner_name }) => owner_name },
          { title: 'Created', of: ({ created_at }) => <Moment at={created_at} /> },
          {
            title: 'Actions',
            isActions: true,
            of: (database) => <Actions branch={branch} roles={roles} database={database} done={done} />,
          },
        ]}
      />
    </>
  )
}

interface ChangeProps extends DatabasesProps {
  readonly done: () => unknown
}

const owners = (roles: readonly string[], first: string | undefined) => (
  <Field label="Owner">
    <select name="owner" defaultValue={first}>
      {roles.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  </Field>
)

function NewDatabase({ branch, roles, done }: ChangeProps) {
  return (
    <FormDialog
      action="new-database"
      opener="New database"
      title="New database"
      verb="Create database"
      unavailable={roles.length === 0 ? 'Create a role first: it owns the database.' : undefined}
      request={(fields) =>
        prepare('POST /projects/:project_id/branches/:branch_id/databases', {
          params: { project_id: branch.project_id, branch_id: branch.id },
          body: { database: { name: textOf(fields, 'name') ?? '', owner_name: textOf(fields, 'owner') ?? '' } },
        })
      }
      neap={(fields) => [
        'databases',
        'create',
        ...on(branch),
        '--owner',
        textOf(fields, 'owner') ?? '',
        '--',
        textOf(fields, 'name') ?? '',
      ]}
      done={done}
    >
      <Field label="Name">
        <input name="name" required maxLength={63} autoComplete="off" />
      </Field>
      {owners(roles, roles[0])}
    </FormDialog>
  )
}

function Actions({ branch, roles, database, done }: ChangeProps & { readonly database: Database }) {
  const params = { project_id: branch.project_id, branch_id: branch.id, database_name: database.name }
  const changes = (fields: FormData) => {
    const [name, owner_name] = [textOf(fields, 'name'), textOf(fields, 'owner')]
    return {
      ...(name !== database.name && { name }),
      ...(owner_name !== database.owner_name && { owner_name }),
    }
  }
  return (
    <>
      <FormDialog
        opener="Change"
        title={`Change ${database.name}`}
        verb="Save"
        request={(fields) => prepare(CHANGE, { params, body: { database: changes(fields) } })}
        neap={(fields) => {
          const { name, owner_name: owner } = changes(fields)
          return [
            'databases',
            'update',
            ...on(branch),
            ...(name === undefined ? [] : ['--name', name]),
            ...(owner === undefined ? [] : ['--owner', owner]),
            '--',
            database.name,
          ]
        }}
        done={done}
      >
        <Field label="Name" hint="Another name ends the sessions of the database.">
          <input name="name" required maxLength={63} defaultValue={database.name} autoComplete="off" />
        </Field>
        {owners(roles.includes(database.owner_name) ? roles : [database.owner_name, ...roles], database.owner_name)}
      </FormDialog>
      <FormDialog
        opener="Delete"
        title={`Delete the database ${database.name}?`}
        verb="Delete database"
        isDangerous
        confirm={database.name}
        request={() => prepare(DELETE, { params })}
        neap={() => ['databases', 'delete', ...on(branch), '--', database.name]}
        done={done}
      >
        <p>All that is in it is deleted, and cannot be brought back. Its sessions end.</p>
      </FormDialog>
    </>
  )
}
