import { Dialog } from '@base-ui/react/dialog'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { call, type Endpoint } from '../api.ts'
import { Copied } from '../parts/copied.tsx'
import { Failure, Loading } from '../parts/states.tsx'

/** Whether clients without a password may wait for the approval of a person at an endpoint. */
export function PasswordlessAccess({
  endpoint,
  onChange,
}: {
  readonly endpoint: Endpoint
  readonly onChange: () => void
}) {
  const hint = useId()
  const { project_id, id: endpoint_id, passwordless_access: isOn } = endpoint
  const change = useMutation({
    mutationFn: (passwordless_access: boolean) =>
      call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
        params: { project_id, endpoint_id },
        body: { endpoint: { passwordless_access } },
      }),
    onSettled: onChange,
  })
  const shown = change.isPending ? change.variables : isOn
  return (
    <div>
      <label className="check">
        <input
          type="checkbox"
          role="switch"
          checked={shown}
          disabled={change.isPending}
          aria-describedby={hint}
          onChange={({ target }) => change.mutate(target.checked)}
        />{' '}
        Let clients without a password wait for approval
      </label>
      <small id={hint}>
        A client shows a link and a code, and gets in once an editor or admin of this organization approves it.
      </small>
      {change.error && <p role="alert">{change.error.message}</p>}
      {isOn && <ConnectWithout endpoint={endpoint} />}
    </div>
  )
}

function ConnectWithout({ endpoint }: { readonly endpoint: Endpoint }) {
  return (
    <Dialog.Root>
      <div>
        <Dialog.Trigger>Connect without a password</Dialog.Trigger>
      </div>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>Connect without a password</Dialog.Title>
          <Command endpoint={endpoint} />
          <div className="buttons">
            <Dialog.Close className="main">Done</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

function Command({ endpoint }: { readonly endpoint: Endpoint }) {
  const { project_id, branch_id, id: endpoint_id } = endpoint
  const uri = useQuery({
    queryKey: ['connect', 'passwordless', endpoint_id],
    queryFn: async () => {
      const params = { project_id, branch_id }
      const { databases } = await call('GET /projects/:project_id/branches/:branch_id/databases', { params })
      const [database] = databases
      if (!database) throw new Error('The branch has no database. Create one first.')
      const query = { endpoint_id, database_name: database.name, role_name: database.owner_name, passwordless: true }
      return (await call('GET /projects/:project_id/connection_uri', { params, query })).uri
    },
  })
  if (uri.error) return <Failure error={uri.error} retry={() => void uri.refetch()} />
  if (uri.data === undefined) return <Loading what="Reading the connection string" />
  return (
    <>
      <p>
        <Copied text={`psql '${uri.data}'`} what="the command for psql" />
      </p>
      <small>
        It shows a link and a code, and waits for two minutes. Drivers that hide notices show neither: give them a
        password.
      </small>
    </>
  )
}
