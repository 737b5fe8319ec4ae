import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { UsageError } from '../errors.ts'
import { MIGRATION_LOCK } from './advisory_locks.ts'
import type { Db } from './catalog.ts'
import { type EmbeddedLogin, loginConfig } from './embedded.ts'
import { type AppliedMigration, type MigrationFile, migrationFiles, missingMigrations } from './migration_files.ts'
import { sql } from './sql.ts'

/** A migration that waits for a lock makes every later session wait behind it, so it gives up soon and tries again. */
const LOCK_TIMEOUT_MS = 2_000
const LOCK_TRIES = 15
const PAUSE_MS = 1_000
const LOCK_NOT_AVAILABLE = '55P03'

/**
 * Applies the missing migrations in order, each in its own transaction. Returns their number.
 * @param tries how often a migration waits two seconds for its locks
 * Errors: UsageError (those of `missingMigrations`, or another session keeps a table locked).
 */
export async function migrate(target: string | EmbeddedLogin, tries = LOCK_TRIES): Promise<number> {
  const login =
    typeof target === 'string' ? { connectionString: target } : loginConfig(target, () => target.passwords()[0] ?? '')
  const client = new pg.Client({ ...login, application_name: 'neap: migrate' })
  await client.connect()
  try {
    // Processes that start at the same time migrate one after the other.
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query(
      `create table if not exists migration
         (name text primary key, applied_at timestamptz not null default now(), checksum text)`,
    )
    await recordChecksums(client)
    const { rows } = await client.query<AppliedMigration>('select name, checksum from migration')
    const missing = missingMigrations(await migrationFiles(), rows)
    for (const file of missing) await applyMigration(client, file, tries)
    return missing.length
  } finally {
    await client.end()
  }
}

/** Errors: UsageError, if the catalog's tables are not those of this version. */
export async function requireCurrentTables(catalog: Db): Promise<void> {
  const applied = await catalog.rows<AppliedMigration>(sql`select name, checksum from migration`)
  const [missing] = missingMigrations(await migrationFiles(), applied)
  if (missing)
    throw new UsageError(
      `The catalog lacks ${missing.name}: start neap up of this version on it once, which brings it up to date.`,
    )
}

async function applyMigration(
  client: pg.Client,
  { name, text, checksum }: MigrationFile,
  tries: number,
): Promise<void> {
  for (let left = tries; ; left--) {
    try {
      await client.query('begin')
      await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
      await client.query(text)
      await client.query('insert into migration (name, checksum) values ($1, $2)', [name, checksum])
      await client.query('commit')
      return
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error
      if (left === 1)
        throw new UsageError(
          `Another session of the catalog keeps a table locked that ${name} changes: end it, and start again.`,
          { cause: error },
        )
    }
    await sleep(PAUSE_MS)
  }
}

/** Adds the checksums to a catalog from before they were recorded. */
async function recordChecksums(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query(
    `select 1 from pg_attribute where attrelid = 'migration'::regclass and attname = 'checksum'`,
  )
  if (rowCount !== 0) return
  await client.query('begin')
  await client.query('alter table migration add column checksum text')
  for (const { name, checksum } of await migrationFiles())
    await client.query('update migration set checksum = $2 where name = $1', [name, checksum])
  await client.query('commit')
}
