import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Notes why computes that may reach out cannot, as the worker found on its machine; undefined: they can. */
export async function noteEgress(db: Db, whyNot: string | undefined): Promise<void> {
  await db.rows(sql`
    insert into setting (name, value) values ('egress_missing', ${JSON.stringify(whyNot ?? null)})
    on conflict (name) do update set value = excluded.value`)
}

/** What was noted last. */
export async function whyNoEgress(db: Db): Promise<string | undefined> {
  const row = await db.row<{ value: string | null }>(sql`select value from setting where name = 'egress_missing'`)
  return row?.value ?? undefined
}
