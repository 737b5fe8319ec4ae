import { HISTORY_SLOT } from '../postgres/wal_slot.ts'
import { ADMIN, OWN_ROLES } from '../postgres/own_session.ts'
import { type AdminSession, BRANCHING } from './session.ts'

/** A use of a compute. Times are milliseconds since 1970. */
export interface Use {
  readonly kind: 'session' | 'replication' | 'backup' | 'subscription' | 'branching'
  readonly pid: number
  /** The application_name of a session or of a stream's other end; the name of a subscription. */
  readonly name: string | null
  readonly role: string | null
  readonly database: string | null
  readonly state: string | null
  /** Start of the current state. */
  readonly since: number | null
  readonly transaction_since: number | null
  readonly query_since: number | null
  readonly keeps_awake: boolean
}

/** A replication slot. One without a reader does not keep its compute awake, but retains WAL. */
export interface Slot {
  readonly name: string
  readonly kind: 'physical' | 'logical'
  readonly database: string | null
  readonly active: boolean
  readonly kept_bytes: number | null
}

const MAX_USES = 200

/**
 * Reads the uses of a compute, those that keep it awake first, and its slots: at most 200 of each, by the rules of
 * `readActivity`. Queries are left out: they may hold data of a database that the caller may not read.
 * Source: Postgres manual, "The Cumulative Statistics System" and "pg_replication_slots".
 */
export async function readUses(session: AdminSession): Promise<{ uses: Use[]; slots: Slot[] }> {
  const uses = await session.query<Use>(`
    with used as (
      select case when a.backend_type <> 'walsender' then 'session'
                  when r.state = 'backup' then 'backup' else 'replication' end as kind,
             a.pid, a.application_name as name, a.usename as role, a.datname as database,
             coalesce(r.state, a.state) as state,
             greatest(a.state_change, a.backend_start) as since, a.xact_start, a.query_start,
             a.backend_type = 'walsender' or a.state is distinct from 'idle' as keeps_awake
        from pg_stat_activity a left join pg_stat_replication r on r.pid = a.pid
       where a.backend_type in ('client backend', 'walsender') and a.usename not in ${OWN_ROLES}
      union all
      select 'subscription', s.pid, s.subname, null, a.datname, null, a.backend_start, null, null, true
        from pg_stat_subscription s left join pg_stat_activity a on a.pid = s.pid where s.pid is not null
      union all
      select 'branching', pid, null, null, null, null, backend_start, null, null, true
        from pg_stat_activity where usename = '${ADMIN}' and application_name = '${BRANCHING}')
    select kind, pid, nullif(name, '') as name, role, database, state,
           extract(epoch from since)::float8 * 1000 as since,
           extract(epoch from xact_start)::float8 * 1000 as transaction_since,
           case when state <> 'idle' then extract(epoch from query_start)::float8 * 1000 end as query_since, keeps_awake
      from used order by keeps_awake desc, since limit ${MAX_USES}`)
  const slots = await session.query<Slot>(`
    select slot_name as name, slot_type as kind, database, active,
           pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 as kept_bytes
      from pg_replication_slots
     where slot_name <> '${HISTORY_SLOT}'
       and (active_pid is null or active_pid not in (select pid from pg_stat_activity where usename = '${ADMIN}'))
     order by 1 limit ${MAX_USES}`)
  return { uses, slots }
}
