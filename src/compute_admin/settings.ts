import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminSession } from './session.ts'

/** The result of a reload. */
export interface Reloaded {
  /** Settings whose new value takes effect only at the next start. */
  readonly pendingRestart: readonly string[]
  /** Settings that Postgres rejected, as `name = 'value'`. */
  readonly refused: readonly string[]
}

const PATIENCE_MS = 10_000
const LOOK_MS = 5

/**
 * Reloads the configuration of Postgres and returns the result (Postgres manual, "pg_file_settings"). Each process
 * reloads by itself and does not report it: this session is polled until it has.
 */
export async function reloadSettings(session: AdminSession): Promise<Reloaded> {
  const loadedAt = async () => (await session.query<{ at: string }>('select pg_conf_load_time()::text as at'))[0]?.at
  const before = await loadedAt()
  await session.query('select pg_reload_conf()')
  const deadline = Date.now() + PATIENCE_MS
  while ((await loadedAt()) === before) {
    if (Date.now() > deadline) throw new Error('Postgres did not read its configuration again')
    await sleep(LOOK_MS)
  }
  const problems = await session.query<{ name: string; value: string; at_start: boolean }>(`
    select f.name, f.setting as value, s.context = 'postmaster' as at_start
      from pg_file_settings f left join pg_settings s on s.name = f.name
     where f.error is not null and f.name is not null`)
  const pending = await session.query<{ name: string }>('select name from pg_settings where pending_restart')
  return {
    pendingRestart: [...problems.filter((each) => each.at_start), ...pending].map(({ name }) => name),
    refused: problems.filter((each) => !each.at_start).map(({ name, value }) => `${name} = '${value}'`),
  }
}
