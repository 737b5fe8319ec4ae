import { ADMIN, ADMIN_DATABASE, OWN_ROLES } from '../postgres/own_session.ts'
import { type AdminSession, BRANCHING } from './session.ts'

/** The use of a compute, from its own statistics. Neap's own sessions never count. */
export interface Activity {
  /** Work that must not be interrupted: a query, an open transaction, replication, a backup. */
  readonly busy: boolean
  /** Seconds since the last activity of a client's session; null if no client is connected. */
  readonly idleSeconds: number | null
  /** Changes whenever a client has connected or run a statement, even if its session has ended. */
  readonly counters: string
}

/**
 * Reads the activity (Postgres manual, "The Cumulative Statistics System"). `sessions` and `active_time` count client
 * sessions only, so autovacuum and Neap's database leave the counters unchanged. A session during its login has no user
 * name and does not count: the proxy restarts a login that a suspend overtakes.
 */
export async function readActivity(session: AdminSession): Promise<Activity> {
  const [row] = await session.query<{ busy: boolean; idle: number | null; counters: string }>(`
    with client as (
      select state, greatest(state_change, backend_start) as since, backend_type from pg_stat_activity
       where backend_type in ('client backend', 'walsender') and usename not in ${OWN_ROLES})
    select coalesce(bool_or(state is distinct from 'idle' or backend_type = 'walsender'), false)
             or exists (select from pg_stat_progress_basebackup)
             or exists (select from pg_stat_subscription where pid is not null)
             or exists (select from pg_stat_activity
                         where usename = '${ADMIN}' and application_name = '${BRANCHING}') as busy,
           extract(epoch from clock_timestamp() - max(since))::float8 as idle,
           (select coalesce(sum(sessions), 0) || ' ' || coalesce(sum(active_time), 0)
              from pg_stat_database where datname <> '${ADMIN_DATABASE}') as counters
      from client`)
  if (!row) throw new Error('the activity query answered no row')
  return { busy: row.busy, idleSeconds: row.idle, counters: row.counters }
}

/**
 * The seconds for which a compute has been idle, from its current activity and the previous state.
 * @param known the previous counters, if any, and the idle seconds that the proxies observed
 */
export function idleSecondsOf(
  { busy, counters, idleSeconds }: Activity,
  known: { readonly counters: string | null; readonly idleSeconds: number },
): number {
  const used = busy || counters !== known.counters
  return used && known.counters !== null ? 0 : Math.min(known.idleSeconds, idleSeconds ?? Infinity)
}
