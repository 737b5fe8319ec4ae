import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Records the versions of Postgres found on the worker's machine. */
export async function notePgVersions(db: Db, versions: readonly number[]): Promise<void> {
  await db.rows(sql`
    insert into setting (name, value) values ('pg_versions', ${JSON.stringify(versions)})
    on conflict (name) do update set value = excluded.value where setting.value is distinct from excluded.value`)
}

/** The recorded versions. Returns undefined before a worker has recorded any. */
export async function installedPgVersions(db: Db): Promise<number[] | undefined> {
  const row = await db.row<{ value: number[] }>(sql`select value from setting where name = 'pg_versions'`)
  return row?.value
}
