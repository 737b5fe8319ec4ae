/* Quoting (Postgres manual, "Lexical Structure"). */

/** A name as an identifier, always in quotes. */
export const ident = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A text as a literal that means the same whatever `standard_conforming_strings` is. */
export function literal(value: string | null): string {
  if (value === null) return 'NULL'
  const quoted = `'${value.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`
  return value.includes('\\') ? ` E${quoted}` : quoted
}

/** A table with its schema. */
export const qualified = (schema: string, name: string): string => `${ident(schema)}.${ident(name)}`
