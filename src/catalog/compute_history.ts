import { COMPUTE_COLUMNS, type ComputeColumns } from './compute.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A running compute of which a sample is taken. */
export interface SampledCompute extends ComputeColumns {
  readonly endpoint_id: string
  readonly compute_id: string
  /** Seconds since its start. */
  readonly age_seconds: number
  /** When the proxies last saw a byte of its clients. */
  readonly last_active: string | null
}

/** The figures of a running compute; null: not known. Sizes in bytes. */
export interface ComputeSample {
  readonly endpoint_id: string
  readonly compute_id: string
  /** CPUs used on average since the sample before. */
  readonly cpu: number | null
  readonly memory: number | null
  readonly cache: number | null
  readonly sessions: number | null
  /** Blocks found in shared memory, and read from files, since the sample before. */
  readonly hits: number | null
  readonly reads: number | null
}

/** The computes that run on a host; sleeping endpoints cost no time. */
export function listSampled(db: Db, hostId: string): Promise<SampledCompute[]> {
  return db.rows(sql`
    select e.id as endpoint_id, c.id as compute_id, e.last_active, ${COMPUTE_COLUMNS},
           extract(epoch from clock_timestamp() - c.started_at)::float8 as age_seconds
      from compute c join endpoint e on e.compute_id = c.id
     where c.host_id = ${hostId} and c.ended_at is null and e.deleted_at is null`)
}

/**
 * Adds a sample of each compute to this minute, with its size, its clients and its branch's size: one statement. A
 * minute that has a sample keeps it. Computes that have ended meanwhile are left out.
 */
export async function addSamples(db: Db, samples: readonly ComputeSample[]): Promise<void> {
  if (samples.length === 0) return
  const column = <Name extends keyof ComputeSample>(name: Name) => samples.map((sample) => sample[name])
  // In key order, so that no two workers deadlock.
  await db.rows(sql`
    insert into compute_history as h (endpoint_id, hour, minutes, cu, cpu, memory, cache, sessions, clients, hits,
                                      reads, logical_size)
    select e.id, date_trunc('hour', statement_timestamp(), 'UTC'),
           array[extract(minute from statement_timestamp())::smallint], array[e.cu::real], array[s.cpu::real],
           array[s.memory::real], array[s.cache::real], array[s.sessions::real],
           array[(select coalesce(sum(c.clients), 0) from endpoint_clients c where c.endpoint_id = e.id)::real],
           array[s.hits::real], array[s.reads::real], array[b.logical_bytes::real]
      from unnest(${column('endpoint_id')}::text[], ${column('compute_id')}::text[], ${column('cpu')}::float8[],
                  ${column('memory')}::float8[], ${column('cache')}::float8[], ${column('sessions')}::float8[],
                  ${column('hits')}::float8[], ${column('reads')}::float8[])
             s (endpoint_id, compute_id, cpu, memory, cache, sessions, hits, reads)
      join endpoint e on e.id = s.endpoint_id and e.compute_id = s.compute_id and e.deleted_at is null
      join branch b on b.id = e.branch_id
     order by e.id
    on conflict (endpoint_id, hour) do update
       set minutes = h.minutes || excluded.minutes, cu = h.cu || excluded.cu, cpu = h.cpu || excluded.cpu,
           memory = h.memory || excluded.memory, cache = h.cache || excluded.cache,
           sessions = h.sessions || excluded.sessions, clients = h.clients || excluded.clients,
           hits = h.hits || excluded.hits, reads = h.reads || excluded.reads,
           logical_size = h.logical_size || excluded.logical_size
     where not h.minutes && excluded.minutes`)
}

/** The figures of an endpoint's computes in one step of a time; null: not known. Sizes in bytes. */
export interface ComputePoint {
  /** When the step begins. */
  readonly at: string
  readonly cu: number
  readonly cpu: number | null
  readonly cpu_max: number | null
  readonly memory: number | null
  readonly cache: number | null
  readonly sessions: number | null
  readonly clients: number | null
  /** The part of the blocks that were found in shared memory. */
  readonly hit_ratio: number | null
  readonly logical_size: number | null
}

/** A time, RFC 3339, and the length of the steps in which it is read. */
export interface SteppedTime {
  readonly from: string
  readonly to: string
  readonly stepSeconds: number
}

/** The figures of an endpoint, oldest first; steps in which no compute ran are absent. */
export function listPoints(
  db: Db,
  endpointId: string,
  { from, to, stepSeconds }: SteppedTime,
): Promise<ComputePoint[]> {
  return db.rows(sql`
    select begin_of_step(t.at, ${stepSeconds}::int) as at, avg(u.cu)::float8 as cu, avg(u.cpu)::float8 as cpu,
           max(u.cpu)::float8 as cpu_max, max(u.memory)::float8 as memory, max(u.cache)::float8 as cache,
           max(u.sessions)::float8 as sessions, max(u.clients)::float8 as clients,
           sum(u.hits::float8) / nullif(sum(u.hits::float8) + sum(u.reads::float8), 0) as hit_ratio,
           max(u.logical_size)::float8 as logical_size
      from compute_history h,
           lateral unnest(h.minutes, h.cu, h.cpu, h.memory, h.cache, h.sessions, h.clients, h.hits, h.reads,
                          h.logical_size)
             u (minute, cu, cpu, memory, cache, sessions, clients, hits, reads, logical_size),
           lateral (select h.hour + make_interval(mins => u.minute)) t (at)
     where h.endpoint_id = ${endpointId} and h.hour >= date_trunc('hour', ${from}::timestamptz, 'UTC')
       and h.hour < ${to}::timestamptz and t.at >= ${from}::timestamptz and t.at < ${to}::timestamptz
     group by 1 order by 1`)
}

/** The starts of an endpoint that clients waited for, in one step of a time. */
export interface WakePoint {
  readonly at: string
  readonly count: number
  readonly mean_ms: number
  readonly max_ms: number
}

/** So many wakes of a time are read, the latest. */
const MAX_WAKES = 10_000

/** The wakes of an endpoint, oldest first. */
export function listWakes(db: Db, endpointId: string, { from, to, stepSeconds }: SteppedTime): Promise<WakePoint[]> {
  return db.rows(sql`
    select begin_of_step(created_at, ${stepSeconds}::int) as at, count(*)::int as count, avg(ms)::float8 as mean_ms,
           max(ms)::float8 as max_ms
      from (select created_at, greatest(extract(epoch from finished_at - created_at) * 1000, 0) as ms
              from operation
             where endpoint_id = ${endpointId} and action = 'start_compute' and reason = 'connection'
               and finished_at is not null and error is null
               and created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz
             order by created_at desc limit ${MAX_WAKES}) wake
     group by 1 order by 1`)
}

/** Removes up to `limit` hours that are at least `days` old. Returns how many it removed. */
export async function expireHistory(db: Db, days: number, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from compute_history
     where (endpoint_id, hour) in (select endpoint_id, hour from compute_history
                                    where hour < statement_timestamp() - make_interval(days => ${days})
                                    order by hour limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
