import { readFile, readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { UsageError } from '../errors.ts'
import { MIGRATION_LOCK } from './advisory_locks.ts'
import { type EmbeddedLogin, loginConfig } from './embedded.ts'

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url))

/** Applies the missing migrations in order, each in its own transaction. Returns their number. */
export async function migrate(target: string | EmbeddedLogin): Promise<number> {
  const files = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort()
  const login =
    typeof target === 'string' ? { connectionString: target } : loginConfig(target, () => target.passwords()[0] ?? '')
  const client = new pg.Client({ ...login, application_name: 'neap: migrate' })
  await client.connect()
  try {
    // Processes that start at the same time migrate one after the other.
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query(
      'create table if not exists migration (name text primary key, applied_at timestamptz not null default now())',
    )
    const { rows } = await client.query<{ name: string }>('select name from migration')
    const applied = new Set(rows.map((row) => row.name))
    const unknown = [...applied].find((name) => !files.includes(name))
    if (unknown)
      throw new UsageError(
        `The catalog was made by a newer Neap (it has ${unknown}). Start that version, or give another --data-dir.`,
      )
    const missing = files.filter((name) => !applied.has(name))
    for (const name of missing) {
      await client.query('begin')
      await client.query(await readFile(`${FOLDER}${name}`, 'utf8'))
      await client.query('insert into migration (name) values ($1)', [name])
      await client.query('commit')
    }
    return missing.length
  } finally {
    await client.end()
  }
}
