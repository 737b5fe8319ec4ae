import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call, prepare } from '../api.ts'
import { Copied } from '../parts/copied.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

type ApiKey = ApiResponse<'GET /api_keys'>[number]

const DAY_MS = 86_400_000
const QUERY = { queryKey: ['keys'], queryFn: () => call('GET /api_keys', {}) }

/** The API keys of the organization. */
export function Keys() {
  const keys = useQuery(QUERY)
  return (
    <>
      <div className="heading">
        <h1>API keys</h1>
        <NewKey />
      </div>
      {keys.isPending && <Loading what="Reading the keys" />}
      {keys.error && <Failure error={keys.error} retry={() => void keys.refetch()} />}
      {keys.data?.length === 0 && (
        <Empty title="No API keys">
          <p>Programs use the API with a key. Give each its own, for one project where that is enough.</p>
        </Empty>
      )}
      {keys.data && keys.data.length > 0 && (
        <Table label="API keys" columns={COLUMNS} rows={keys.data} keyOf={({ id }) => id} />
      )}
    </>
  )
}

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    title: 'Name',
    of: ({ name, id }) => (
      <>
        {name} <small>{id}</small>
      </>
    ),
  },
  { title: 'May', of: ({ scope }) => scope },
  { title: 'Project', of: ({ project_id }) => project_id ?? 'all' },
  {
    title: 'Last used',
    of: ({ last_used_at, last_used_from_addr }) => (
      <>
        {last_used_at ? <Moment at={last_used_at} /> : 'never'}
        {last_used_from_addr && <small> from {last_used_from_addr}</small>}
      </>
    ),
  },
  { title: 'Expires', of: ({ expires_at }) => (expires_at ? <Moment at={expires_at} /> : 'never') },
  { title: 'Actions', isActions: true, of: ({ id, name }) => <RevokeKey id={id} name={name} /> },
]

function NewKey() {
  const queries = useQueryClient()
  const projects = useQuery({
    queryKey: ['projects'],
    queryFn: async () => (await call('GET /projects', { query: { limit: 400 } })).projects,
  })
  return (
    <FormDialog
      action="new-key"
      opener="New API key"
      title="New API key"
      verb="Create key"
      request={(fields) => {
        const days = Number(textOf(fields, 'days') ?? 0)
        return prepare('POST /api_keys', {
          body: {
            key_name: textOf(fields, 'name') ?? '',
            scope: textOf(fields, 'scope') as 'read' | 'write' | 'admin',
            project_id: textOf(fields, 'project'),
            expires_at: days > 0 ? new Date(Date.now() + days * DAY_MS).toISOString() : undefined,
          },
        })
      }}
      neap={(fields) => [
        'keys',
        'create',
        '--scope',
        textOf(fields, 'scope') ?? '',
        ...(textOf(fields, 'project') === undefined ? [] : ['--project', textOf(fields, 'project') ?? '']),
        ...(textOf(fields, 'days') === undefined ? [] : ['--expires', `${textOf(fields, 'days')}d`]),
        '--',
        textOf(fields, 'name') ?? '',
      ]}
      done={() => queries.invalidateQueries(QUERY)}
      result={({ key }) => (
        <>
          <p>Copy the key now: only its hash is kept.</p>
          <p>
            <Copied text={key} what="the key" />
          </p>
        </>
      )}
    >
      <Field label="Name" hint="What it is for.">
        <input name="name" required maxLength={64} autoComplete="off" />
      </Field>
      <Field label="It may">
        <select name="scope" defaultValue="write">
          <option value="read">read</option>
          <option value="write">read and write</option>
          <option value="admin">everything, also make and revoke keys</option>
        </select>
      </Field>
      <Field label="Project" hint="The only one that the key is for.">
        <select name="project">
          <option value="">all</option>
          {projects.data?.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      <Field label="Days until it expires" hint="Leave it empty for a key that does not.">
        <input name="days" type="number" min={1} max={3650} />
      </Field>
    </FormDialog>
  )
}

function RevokeKey({ id, name }: { readonly id: number; readonly name: string }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      opener="Revoke"
      title={`Revoke ${name}?`}
      verb="Revoke key"
      isDangerous
      request={() => prepare('DELETE /api_keys/:key_id', { params: { key_id: id } })}
      neap={() => ['keys', 'revoke', String(id)]}
      done={() => queries.invalidateQueries(QUERY)}
    >
      <p>Programs that use it are refused at once.</p>
    </FormDialog>
  )
}
