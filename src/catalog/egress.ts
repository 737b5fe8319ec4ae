import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Records why computes have no egress on the worker's machine; undefined if they have. */
export async function noteEgress(db: Db, whyNot: string | undefined): Promise<void> {
  await db.rows(sql`
    insert into setting (name, value) values ('egress_missing', ${JSON.stringify(whyNot ?? null)})
    on conflict (name) do update set value = excluded.value`)
}

/** The last recorded reason. Returns undefined when egress works or no reason was recorded. */
export async function whyNoEgress(db: Db): Promise<string | undefined> {
  const row = await db.row<{ value: string | null }>(sql`select value from setting where name = 'egress_missing'`)
  return row?.value ?? undefined
}
