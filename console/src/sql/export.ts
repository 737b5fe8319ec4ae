import type { Result } from './run.ts'

const ROWS_PER_PART = 10_000

/** Saves the rows of a result as a file. */
export function exportResult(result: Pick<Result, 'columns' | 'rows'>, format: 'csv' | 'json'): void {
  const names = uniqueNames(result.columns?.map(({ name }) => name) ?? [])
  const parts: string[] = [format === 'csv' ? `${names.map(csvField).join(',')}\r\n` : '[\n']
  for (let from = 0; from < result.rows.length; from += ROWS_PER_PART) {
    const rows = result.rows.slice(from, from + ROWS_PER_PART)
    if (format === 'csv') parts.push(rows.map((row) => `${row.map(csvField).join(',')}\r\n`).join(''))
    else {
      const last = from + ROWS_PER_PART >= result.rows.length
      const objects = rows.map((row) =>
        JSON.stringify(Object.fromEntries(names.map((name, at) => [name, row[at] ?? null]))),
      )
      parts.push(objects.join(',\n'), last ? '\n' : ',\n')
    }
  }
  if (format === 'json') parts.push(']\n')
  const url = URL.createObjectURL(new Blob(parts, { type: format === 'csv' ? 'text/csv' : 'application/json' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `result.${format}`
  link.click()
  URL.revokeObjectURL(url)
}

/** A field of CSV (RFC 4180); NULL is empty, an empty text is in quotes, as COPY writes them. */
function csvField(value: string | null): string {
  if (value === null) return ''
  return value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

/** Names of columns, numbered where several are equal: an object has each once. */
function uniqueNames(names: readonly string[]): string[] {
  const seen = new Map<string, number>()
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1
    seen.set(name, count)
    return count === 1 ? name : `${name}_${count}`
  })
}
