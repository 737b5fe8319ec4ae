import { type FormEvent, useState } from 'react'
import { prepare, type Prepared } from '../api.ts'
import { FormDialog } from '../parts/form_dialog.tsx'
import { type Row, rowsOf, type SqlPlace } from './ask.ts'
import { deleteOf, insertOf, type NewValue, type TableColumn, updateOf } from './browse.ts'

interface OfRows {
  readonly place: SqlPlace
  readonly schema: string
  readonly table: string
  readonly columns: readonly TableColumn[]
  /** Called once the rows have changed. */
  readonly onChange: () => unknown
}

/** A request that runs a text, and fails where Postgres does. */
function running(place: SqlPlace, sql: string): Prepared<unknown> {
  const { branch, database, role } = place
  const prepared = prepare('POST /projects/:project_id/branches/:branch_id/sql', {
    params: { project_id: branch.project_id, branch_id: branch.id },
    body: { database_name: database, role_name: role, sql },
  })
  return { ...prepared, send: () => rowsOf(place, sql, { readOnly: false }) }
}

export function InsertRow(of: OfRows) {
  const sqlOf = (fields: FormData) => insertOf(of, valuesIn(fields, of.columns, undefined))
  return (
    <FormDialog
      opener="Insert a row"
      title={`Insert into ${of.table}`}
      verb="Insert"
      request={(fields) => running(of.place, sqlOf(fields))}
      done={of.onChange}
    >
      <Cells columns={of.columns} row={undefined} preview={sqlOf} />
    </FormDialog>
  )
}

export function EditRow({ row, ...of }: OfRows & { readonly row: Row }) {
  const sqlOf = (fields: FormData) => updateOf(of, row, valuesIn(fields, of.columns, row))
  return (
    <FormDialog
      opener="Edit"
      title={`A row of ${of.table}`}
      verb="Update"
      request={(fields) => {
        const sql = sqlOf(fields)
        // The form has no fields yet when it is first shown.
        if (sql === undefined) throw new Error('No value is changed. Change one, or cancel.')
        return running(of.place, sql)
      }}
      done={of.onChange}
    >
      <Cells columns={of.columns} row={row} preview={(fields) => sqlOf(fields) ?? '-- no value is changed'} />
    </FormDialog>
  )
}

export function DeleteRow({ row, ...of }: OfRows & { readonly row: Row }) {
  const sql = deleteOf(of, row)
  return (
    <FormDialog
      opener="Delete"
      title={`Delete a row of ${of.table}?`}
      verb="Delete row"
      isDangerous
      request={() => running(of.place, sql)}
      done={of.onChange}
    >
      <Preview sql={sql} />
    </FormDialog>
  )
}

interface CellsProps {
  readonly columns: readonly TableColumn[]
  /** The row as it is; undefined for a new one. */
  readonly row: Row | undefined
  readonly preview: (fields: FormData) => string
}

function Cells({ columns, row, preview }: CellsProps) {
  const [sql, setSql] = useState<string>()
  const refresh = ({ currentTarget }: FormEvent<HTMLElement>) => {
    const form = currentTarget.closest('form')
    if (form) setSql(preview(new FormData(form)))
  }
  return (
    <div className="cells" onInput={refresh}>
      {columns.map(({ name, type, isNullable, hasDefault, isGenerated }, at) => (
        <fieldset key={name} disabled={isGenerated}>
          <legend>
            {name} <small>{isGenerated ? `${type}, made by Postgres` : type}</small>
          </legend>
          <textarea name={`value ${at}`} aria-label={name} rows={1} defaultValue={row?.[at] ?? ''} spellCheck={false} />
          {isNullable && (
            <label className="check">
              <input type="checkbox" name={`null ${at}`} defaultChecked={row !== undefined && row[at] === null} /> NULL
            </label>
          )}
          {row === undefined && hasDefault && (
            <label className="check">
              <input type="checkbox" name={`default ${at}`} defaultChecked /> Default
            </label>
          )}
        </fieldset>
      ))}
      <Preview sql={sql ?? '-- the statement stands here once a value is changed'} />
    </div>
  )
}

function Preview({ sql }: { readonly sql: string }) {
  return (
    <pre className="preview" tabIndex={0} aria-label="SQL to run">
      {sql}
    </pre>
  )
}

/** The values in a form for a row, or for a new one. What was changed last counts: a text, or its NULL. */
function valuesIn(fields: FormData, columns: readonly TableColumn[], row: Row | undefined): NewValue[] {
  return columns.map(({ isGenerated, isNullable }, at) => {
    const typed = fields.get(`value ${at}`)
    if (isGenerated || typeof typed !== 'string') return undefined
    const was = row?.[at]
    const isNull = fields.get(`null ${at}`) === 'on'
    // Forms change line breaks (HTML Living Standard, 4.10.21.4): a text that differs by them alone is as it was.
    const text = withLineFeeds(typed)
    if (row) return isNull && (was !== null || text === '') ? null : text === withLineFeeds(was ?? '\0') ? was : text
    if (text !== '') return text
    if (isNull) return null
    return fields.get(`default ${at}`) === 'on' || isNullable ? undefined : ''
  })
}

const withLineFeeds = (text: string): string => text.replaceAll('\r\n', '\n')
