import { sql } from './sql.ts'

/** Whether the name or id of a row contains a text, in any case; every row without a text. */
export const matchesSearch = (text: string | undefined) =>
  sql`(${text}::text is null or position(lower(${text}) in lower(name || ' ' || id)) > 0)`
