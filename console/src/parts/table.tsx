import type { ReactNode } from 'react'

export interface Column<Row> {
  readonly title: string
  /** The cell of a row. */
  readonly of: (row: Row) => ReactNode
  /** What can be done to a row: without a visible title, at its end. */
  readonly isActions?: boolean
}

interface TableProps<Row> {
  /** What the table lists, for those who do not see it. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string | number
}

/** Rows in columns; in a narrow window each row is a card, whose roles say that it is still one. */
export function Table<Row>({ label, columns, rows, keyOf }: TableProps<Row>) {
  return (
    <div className="table">
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ title, isActions }) => (
              <th key={title} role="columnheader" scope="col">
                <span className={isActions ? 'hidden' : undefined}>{title}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={keyOf(row)} role="row">
              {columns.map(({ title, of, isActions }) => (
                <td key={title} role="cell" className={isActions ? 'actions' : undefined} data-title={title}>
                  <div>{of(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
