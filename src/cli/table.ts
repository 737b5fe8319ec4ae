/** The columns of a table: each heading with its cell; undefined for an empty cell. */
export type Columns<T> = Readonly<Record<string, (item: T) => string | undefined>>

/** Items as a table, one per line, without empty columns; the given text when there are no items. */
export function list<T>(items: readonly T[], columns: Columns<T>, none: string): string {
  if (items.length === 0) return none
  const shown = Object.entries(columns).filter(([, cell]) => items.some((item) => cell(item) !== undefined))
  return table(
    shown.map(([heading]) => heading),
    items.map((item) => shown.map(([, cell]) => cell(item) ?? '-')),
  )
}

/** One item, with a line for each column that is not empty. */
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

/** Escapes control characters: names may contain them, and a terminal obeys them. */
export const printable = (text: string): string => text.replace(/\p{Cc}/gu, escaped)

/** The same for a text of several lines. */
export const printableLines = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, escaped)

const escaped = (character: string): string => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`

/** A moment to the second. */
export function moment(rfc3339: string | null | undefined): string | undefined {
  return rfc3339 ? rfc3339.replace(/\.\d+Z$/, 'Z') : undefined
}

/** A duration in its largest unit. */
export function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86_400)} d`
}
