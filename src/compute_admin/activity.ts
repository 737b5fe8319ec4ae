import { ADMIN, ADMIN_DATABASE, OWN_ROLES } from '../postgres/own_session.ts'
import { type AdminSession, BRANCHING } from './session.ts'

/** What a compute's own statistics say of its use. Neap's own sessions never count. */
export interface Activity {
  /** Something that must not be cut off: a query, an open transaction, replication, a backup. */
  readonly busy: boolean
  /** Seconds since a client's session last did something; nothing if no client is connected. */
  readonly idleSeconds: number | null
  /** Changes whenever a client has connected or run something, also if its session is gone again. */
  readonly counters: string
}

/**
 * Reads the activity (Postgres manual, "The Cumulative Statistics System"). `sessions` and `active_time` count client
 * sessions only, so autovacuum and Neap's database leave the counters as they are. Who has not logged in yet has no name and does not
 * count: the proxy lets a login that a suspend overtakes begin anew.
 */
export async function readActivity(session: AdminSession): Promise<Activity> {
  const [row] = await session.query<{ busy: boolean; idle: number | null; counters: string }>(`
    with client as (
      select state, greatest(state_change, backend_start) as since, backend_type from pg_stat_activity
       where backend_type in ('client backend', 'walsender') and usename not in ${OWN_ROLES})
    select coalesce(bool_or(state is distinct from 'idle' or backend_type = 'walsender'), false)
             or exists (select from pg_stat_progress_basebackup)
             or exists (select from pg_stat_subscription where pid is not null)
             or exists (select from pg_stat_activity where usename = '${ADMIN}' and application_name = '${BRANCHING}') as busy,
           extract(epoch from clock_timestamp() - max(since))::float8 as idle,
           (select coalesce(sum(sessions), 0) || ' ' || coalesce(sum(active_time), 0) from pg_stat_database where datname <> '${ADMIN_DATABASE}') as counters
      from client`)
  if (!row) throw new Error('the activity query answered no row')
  return { busy: row.busy, idleSeconds: row.idle, counters: row.counters }
}

/**
 * For how many seconds nobody has used a compute, by what was found now and what was known before.
 * @param known the counters of the look before, if there was one, and how long nobody had used it by what the proxies saw
 */
export function idleSecondsOf(
  { busy, counters, idleSeconds }: Activity,
  known: { readonly counters: string | null; readonly idleSeconds: number },
): number {
  const used = busy || counters !== known.counters
  return used && known.counters !== null ? 0 : Math.min(known.idleSeconds, idleSeconds ?? Infinity)
}
