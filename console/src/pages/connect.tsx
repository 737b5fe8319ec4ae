import { Dialog } from '@base-ui/react/dialog'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Branch, call, type Endpoint } from '../api.ts'
import { Copied } from '../parts/copied.tsx'
import { Field } from '../parts/field.tsx'
import { Failure, Loading } from '../parts/states.tsx'

/** How to connect to a branch. Its password is read only when the dialog is open. */
export function ConnectBranch({
  branch,
  endpoint,
}: {
  readonly branch: Branch
  readonly endpoint: Endpoint | undefined
}) {
  return (
    <Dialog.Root>
      <Dialog.Trigger disabled={!endpoint} title={endpoint ? undefined : 'The branch has no endpoint.'}>
        Connect
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>Connect to {branch.name}</Dialog.Title>
          <Connection branch={branch} />
          <div className="buttons">
            <Dialog.Close className="main">Done</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

function Connection({ branch }: { readonly branch: Branch }) {
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const [chosen, setChosen] = useState<{ role?: string; database?: string; pooled: boolean }>({ pooled: true })
  const there = useQuery({
    queryKey: ['connect', branch.id],
    queryFn: async () => {
      const [{ roles }, { databases }] = await Promise.all([
        call('GET /projects/:project_id/branches/:branch_id/roles', { params }),
        call('GET /projects/:project_id/branches/:branch_id/databases', { params }),
      ])
      return { roles: roles.map(({ name }) => name), databases: databases.map(({ name }) => name) }
    },
  })
  const role = chosen.role ?? there.data?.roles[0]
  const database = chosen.database ?? there.data?.databases[0]
  const uri = useQuery({
    queryKey: ['connect', branch.id, role, database, chosen.pooled],
    enabled: role !== undefined && database !== undefined,
    // A password is not kept longer than it is shown.
    gcTime: 0,
    queryFn: async () => {
      const query = {
        branch_id: branch.id,
        role_name: role ?? '',
        database_name: database ?? '',
        pooled: chosen.pooled,
      }
      return (await call('GET /projects/:project_id/connection_uri', { params, query })).uri
    },
  })
  const error = there.error ?? uri.error
  if (error) return <Failure error={error} retry={() => void (there.error ? there.refetch() : uri.refetch())} />
  if (!there.data || uri.data === undefined) return <Loading what="Reading roles and databases" />
  const choices = (names: readonly string[]) => names.map((name) => <option key={name}>{name}</option>)
  return (
    <>
      <Field label="Role">
        <select value={role} onChange={({ target }) => setChosen({ ...chosen, role: target.value })}>
          {choices(there.data.roles)}
        </select>
      </Field>
      <Field label="Database">
        <select value={database} onChange={({ target }) => setChosen({ ...chosen, database: target.value })}>
          {choices(there.data.databases)}
        </select>
      </Field>
      <label className="check">
        <input
          type="checkbox"
          checked={chosen.pooled}
          onChange={({ target }) => setChosen({ ...chosen, pooled: target.checked })}
        />{' '}
        Pool connections
      </label>
      <p>
        <Copied text={uri.data} what="the connection string" shown={uri.data.replace(/:[^:@/]+@/, ':••••••@')} />
      </p>
      <p>
        <Copied text={`psql '${uri.data}'`} what="the command for psql" shown="psql '…'" />
      </p>
      <small>It works while the compute sleeps: a connection wakes it.</small>
    </>
  )
}
