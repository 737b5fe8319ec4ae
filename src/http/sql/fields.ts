import type { Column, Report } from './events.ts'

/** Limit of a text in an error or notice, which a role can make as long as it likes. */
const MAX_TEXT = 20_000

const FIELDS = {
  V: 'severity',
  C: 'code',
  M: 'message',
  D: 'detail',
  H: 'hint',
  W: 'where',
  s: 'schema',
  t: 'table',
  c: 'column',
  n: 'constraint',
} as const

/** The fields of an error or a notice (Postgres manual, "Error and Notice Message Fields"). */
export function readReport(body: Buffer): Report {
  const report: Record<string, string | number> = { severity: 'ERROR', code: 'XX000', message: '' }
  for (let at = 0; at < body.length && body[at] !== 0;) {
    const end = endOfText(body, at)
    const code = String.fromCharCode(body[at] ?? 0)
    const text = body.toString('utf8', at + 1, Math.min(end, at + 1 + MAX_TEXT))
    if (code === 'P') report['position'] = Number(text)
    const name = FIELDS[code as keyof typeof FIELDS]
    if (name !== undefined) report[name] = text
    at = end + 1
  }
  return report as unknown as Report
}

/** The columns of a RowDescription. */
export function readColumns(body: Buffer): Column[] {
  const columns: Column[] = []
  let at = 2
  for (let left = body.readInt16BE(0); left > 0; left--) {
    const end = endOfText(body, at)
    const name = body.toString('utf8', at, end)
    columns.push({
      name,
      table_oid: body.readUInt32BE(end + 1),
      column_number: body.readInt16BE(end + 5),
      type_oid: body.readUInt32BE(end + 7),
      type_modifier: body.readInt32BE(end + 13),
    })
    at = end + 19
  }
  return columns
}

/** The values of a DataRow, as texts. */
export function readRow(body: Buffer): (string | null)[] {
  const values: (string | null)[] = []
  let at = 2
  for (let left = body.readInt16BE(0); left > 0; left--) {
    const bytes = body.readInt32BE(at)
    at += 4
    values.push(bytes < 0 ? null : body.toString('utf8', at, at + bytes))
    if (bytes > 0) at += bytes
  }
  return values
}

/** The text of a CommandComplete, such as `INSERT 0 3`. */
export const readTag = (body: Buffer): string => body.toString('utf8', 0, endOfText(body, 0))

function endOfText(body: Buffer, at: number): number {
  const end = body.indexOf(0, at)
  return end < 0 ? body.length : end
}
