import { ADMIN_DATABASE, OWN_ROLES } from '../postgres/own_session.ts'
import type { AdminSession } from './session.ts'

/** Counts of a compute since its statistics began. */
export interface ComputeStatistics {
  /** Sessions of clients now; Neap's own do not count. */
  readonly sessions: number
  /** Blocks found in shared memory, and read from files. */
  readonly hits: number
  readonly reads: number
}

/** Reads the counts by one query of Postgres' own statistics, which reads no table of users. */
export async function readStatistics(session: AdminSession): Promise<ComputeStatistics> {
  const [row] = await session.query<{ sessions: number; hits: number; reads: number }>(`
    select (select count(*) from pg_stat_activity
             where backend_type = 'client backend' and usename not in ${OWN_ROLES})::float8 as sessions,
           coalesce(sum(blks_hit), 0)::float8 as hits, coalesce(sum(blks_read), 0)::float8 as reads
      from pg_stat_database where datname <> '${ADMIN_DATABASE}'`)
  if (!row) throw new Error('the statistics query answered no row')
  return row
}
