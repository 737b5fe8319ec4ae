/** What a table shows of a thing: a heading and its cell; undefined where there is nothing to show. */
export type Columns<T> = Readonly<Record<string, (item: T) => string | undefined>>

/** Things as a table, one a line, without the columns in which nothing stands; the given words where there are none. */
export function list<T>(items: readonly T[], columns: Columns<T>, none: string): string {
  if (items.length === 0) return none
  const shown = Object.entries(columns).filter(([, cell]) => items.some((item) => cell(item) !== undefined))
  return table(
    shown.map(([heading]) => heading),
    items.map((item) => shown.map(([, cell]) => cell(item) ?? '-')),
  )
}

/** One thing, a line for each of its columns that has something to show. */
export function card<T>(item: T, columns: Columns<T>): string {
  const cells = Object.entries(columns).map(([heading, cell]) => [heading, cell(item)] as const)
  const shown = cells.filter((cell): cell is readonly [string, string] => cell[1] !== undefined)
  const width = Math.max(...shown.map(([heading]) => heading.length))
  return shown.map(([heading, cell]) => `${heading.padEnd(width)}  ${printable(cell)}`).join('\n')
}

/** Rows as aligned columns under their headings. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(printable))
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Names may hold anything, and a terminal obeys control characters. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`)
}

/** A moment to the second. */
export function moment(rfc3339: string | null | undefined): string | undefined {
  return rfc3339 ? rfc3339.replace(/\.\d+Z$/, 'Z') : undefined
}

/** A length of time as people say it. */
export function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86_400)} d`
}
