import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { type Branch, call } from '../../api.ts'
import { Copied } from '../../parts/copied.tsx'
import { Field } from '../../parts/field.tsx'
import { SnippetBlock } from '../../parts/snippet_block.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import { addressOf } from './address.ts'
import { AuthorityFile, useAuthority } from './authority_file.tsx'
import type { Snippet } from './snippet.ts'
import { snippetsFor } from './snippets.ts'

/** The choice of a way to connect, which the address of the page holds. */
function useChoice() {
  const [search, setSearch] = useSearchParams()
  const choose = (name: string, value: string) =>
    setSearch(
      (before) => {
        before.set(name, value)
        return before
      },
      { replace: true },
    )
  return {
    role: search.get('role') ?? undefined,
    database: search.get('database') ?? undefined,
    isPooled: search.get('pooled') !== 'no',
    verifies: search.get('verify') !== 'no',
    client: search.get('client') ?? 'psql',
    choose,
  }
}

/** How to connect to a branch, as lines for each client. Passwords are read only while it is shown. */
export function ConnectPanel({ branch }: { readonly branch: Branch }) {
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const choice = useChoice()
  const there = useQuery({
    queryKey: ['connect', branch.id],
    queryFn: async () => {
      const [{ roles }, { databases }] = await Promise.all([
        call('GET /projects/:project_id/branches/:branch_id/roles', { params }),
        call('GET /projects/:project_id/branches/:branch_id/databases', { params }),
      ])
      const logins = roles.filter(({ authentication_method: method }) => method === 'password')
      return { roles: logins.map(({ name }) => name), databases }
    },
  })
  const database = choice.database ?? there.data?.databases[0]?.name
  const owner = there.data?.databases.find(({ name }) => name === database)?.owner_name
  const role = choice.role ?? (owner !== undefined && there.data?.roles.includes(owner) ? owner : there.data?.roles[0])
  if (there.error && !there.data) return <Failure error={there.error} retry={() => void there.refetch()} />
  if (!there.data) return <Loading what="Reading roles and databases" />
  if (role === undefined || database === undefined)
    return <p>The branch has no {role === undefined ? 'role that may log in' : 'database'} yet: create one first.</p>
  const options = (names: readonly string[]) => names.map((name) => <option key={name}>{name}</option>)
  return (
    <div className="connect">
      <div className="choices">
        <Field label="Role">
          <select value={role} onChange={({ target }) => choice.choose('role', target.value)}>
            {options(there.data.roles)}
          </select>
        </Field>
        <Field label="Database">
          <select value={database} onChange={({ target }) => choice.choose('database', target.value)}>
            {options(there.data.databases.map(({ name }) => name))}
          </select>
        </Field>
        <label className="check">
          <input
            type="checkbox"
            checked={choice.isPooled}
            onChange={({ target }) => choice.choose('pooled', target.checked ? 'yes' : 'no')}
          />{' '}
          Pool connections
        </label>
      </div>
      <Clients branch={branch} role={role} database={database} choice={choice} />
    </div>
  )
}

interface ClientsProps {
  readonly branch: Branch
  readonly role: string
  readonly database: string
  readonly choice: ReturnType<typeof useChoice>
}

function Clients({ branch, role, database, choice }: ClientsProps) {
  const authority = useAuthority()
  const [isShown, setShown] = useState(false)
  const uri = useQuery({
    queryKey: ['connect', branch.id, role, database, choice.isPooled],
    // A password is not kept longer than it is shown.
    gcTime: 0,
    queryFn: async () => {
      const query = { branch_id: branch.id, role_name: role, database_name: database, pooled: choice.isPooled }
      const params = { project_id: branch.project_id }
      return (await call('GET /projects/:project_id/connection_uri', { params, query })).uri
    },
  })
  if (uri.error) return <Failure error={uri.error} retry={() => void uri.refetch()} />
  if (uri.data === undefined || authority.isPending) return <Loading what="Reading the connection string" />
  const address = addressOf(uri.data, choice.verifies && authority.data !== undefined)
  const password = encodeURIComponent(address.password)
  const snippets = snippetsFor(address)
  const shown = snippets.find(({ id }) => id === choice.client) ?? snippets[0]
  const mask = (text: string) => (isShown ? text : text.replace(password, '••••••'))
  return (
    <>
      <p className="uri">
        <Copied text={uri.data} what="the connection string" shown={mask(uri.data)} />
      </p>
      <p className="choices">
        <label className="check">
          <input type="checkbox" checked={isShown} onChange={({ target }) => setShown(target.checked)} /> Show the
          password
        </label>
        {authority.data !== undefined && (
          <label className="check">
            <input
              type="checkbox"
              checked={choice.verifies}
              onChange={({ target }) => choice.choose('verify', target.checked ? 'yes' : 'no')}
            />{' '}
            Verify the server
          </label>
        )}
      </p>
      <fieldset className="pills">
        <legend className="hidden">Client</legend>
        {snippets.map(({ id, title }) => (
          <label key={id}>
            <input type="radio" name="client" checked={shown?.id === id} onChange={() => choice.choose('client', id)} />
            <span>{title}</span>
          </label>
        ))}
      </fieldset>
      {address.authority !== undefined && authority.data !== undefined && <AuthorityFile text={authority.data} />}
      {shown && <Lines snippet={shown} hidden={isShown ? undefined : password} />}
      <small>It works while the compute sleeps: a connection wakes it.</small>
    </>
  )
}

function Lines({ snippet, hidden }: { readonly snippet: Snippet; readonly hidden: string | undefined }) {
  return (
    <>
      {snippet.parts.map(({ where, text }, index) => (
        <SnippetBlock
          key={`${snippet.id} ${text}`}
          title={where}
          text={text}
          what={`${snippet.title}, part ${index + 1}`}
          hidden={hidden}
        />
      ))}
      {snippet.hint !== undefined && <p>{snippet.hint}</p>}
    </>
  )
}
