import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { type Prepared, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { BranchPicker } from '../../parts/branch_picker.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { PastTime } from '../../parts/past_time.tsx'
import { expiryOf, given, Lifetime, lifetimeOf } from './lifetime.tsx'

/** With what a branch may begin. */
const DATA = {
  now: 'what its parent has now',
  time: 'what its parent had at a time',
  lsn: 'what its parent had at an LSN',
  schema: 'the schema of its parent only',
  masked: 'what its parent has, masked',
} as const
type Data = keyof typeof DATA

const dataOf = (fields: FormData): Data => (textOf(fields, 'data') as Data | undefined) ?? 'now'

/** Makes a branch with an endpoint, which expires after a day unless told otherwise. */
export function NewBranch({ projectId, parent }: { readonly projectId: string; readonly parent?: string }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      action="new-branch"
      opener="New branch"
      title="New branch"
      verb="Create branch"
      request={(fields) => creation(projectId, fields)}
      neap={(fields) => command(projectId, fields)}
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
      <DataFields />
      <Lifetime isTicked />
    </FormDialog>
  )
}

function DataFields() {
  const [data, setData] = useState<Data>('now')
  return (
    <>
      <Field label="Begins with">
        <select name="data" value={data} onChange={({ target }) => setData(target.value as Data)}>
          {Object.entries(DATA).map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </Field>
      {data === 'time' && <PastTime name="time" />}
      {data === 'lsn' && (
        <Field label="LSN" hint="A position in the parent's WAL, such as 0/1A2B3C4.">
          <input name="lsn" required pattern="[0-9a-fA-F]{1,8}/[0-9a-fA-F]{1,8}" autoComplete="off" />
        </Field>
      )}
      {data === 'masked' && (
        <Field
          label="Masks"
          hint="A line for each column: database.schema.table.column=expression. No client enters before they are done."
        >
          <textarea name="masks" required rows={4} placeholder="neondb.public.person.email=anon.fake_email()" />
        </Field>
      )}
    </>
  )
}

function creation(projectId: string, fields: FormData): Prepared<unknown> {
  const params = { project_id: projectId }
  const data = dataOf(fields)
  const branch = {
    name: textOf(fields, 'name'),
    parent_id: textOf(fields, 'parent'),
    expires_at: expiryOf(fields),
    parent_timestamp: data === 'time' ? textOf(fields, 'time') : undefined,
    parent_lsn: data === 'lsn' ? textOf(fields, 'lsn') : undefined,
    init_source: data === 'schema' ? ('schema-only' as const) : undefined,
  }
  const body = { branch, endpoints: [{ type: 'read_write' as const }] }
  if (data !== 'masked') return prepare('POST /projects/:project_id/branches', { params, body })
  return prepare('POST /projects/:project_id/branch_anonymized', {
    params,
    body: { branch_create: body, masking_rules: masksOf(fields).map(ruleOf), start_anonymization: true },
  })
}

const masksOf = (fields: FormData): string[] =>
  (textOf(fields, 'masks') ?? '').split('\n').filter((line) => line.trim() !== '')

function ruleOf(line: string) {
  const [, database_name, schema_name, table_name, column_name, masking_function] =
    /^\s*([^.=]+)\.([^.=]+)\.([^.=]+)\.([^.=]+)=(.+)$/.exec(line) ?? []
  if (!database_name || !schema_name || !table_name || !column_name || !masking_function)
    throw new Error(`This is no mask: ${line.trim()}. One looks like neondb.public.person.email=anon.fake_email()`)
  return { database_name, schema_name, table_name, column_name, masking_function }
}

function command(projectId: string, fields: FormData): string[] {
  const data = dataOf(fields)
  const moment = data === 'time' || data === 'lsn' ? textOf(fields, data) : undefined
  return [
    'branches',
    'create',
    '--project',
    projectId,
    ...given('--parent', textOf(fields, 'parent')),
    ...given('--at', moment),
    ...(data === 'schema' ? ['--schema-only'] : []),
    ...(data === 'masked' ? masksOf(fields).flatMap((line) => ['--mask', line.trim()]) : []),
    ...given('--expires', lifetimeOf(fields)),
    ...given('--', textOf(fields, 'name')),
  ]
}
