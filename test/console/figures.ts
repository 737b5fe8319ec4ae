import { catalogQuery } from '../admin.ts'
import type { Neap } from '../neap.ts'
import type { Place } from '../project.ts'

/**
 * Figures of a compute over so many hours, as samples have left them: it works at day, and sleeps for a third of the
 * time, also now.
 */
export async function insertFigures(neap: Neap, { endpoint_id }: Place, hours: number): Promise<void> {
  await catalogQuery(
    neap,
    `insert into compute_history (endpoint_id, hour, minutes, cu, cpu, memory, cache, sessions, clients, hits, reads,
                                  logical_size)
     select $1, h.hour, array_agg(m::smallint order by m), array_agg((1 + (n / 3) % 3)::real order by m),
            array_agg((0.4 + 0.3 * sin(n / 2.0) + 0.2 * random())::real order by m),
            array_agg((4e8 + 2e8 * sin(n / 5.0))::real order by m), array_agg((9e8)::real order by m),
            array_agg((3 + n % 5)::real order by m), array_agg((20 + 5 * (n % 7))::real order by m),
            array_agg(9000::real order by m), array_agg((100 + 50 * random())::real order by m),
            array_agg((1e9 + 1e7 * n)::real order by m)
       from (select n, date_trunc('hour', now(), 'UTC') - make_interval(hours => $2::int - n) as hour
               from generate_series(0, $2::int - 1) n where n % 6 < 4) h, generate_series(0, 59) m
      group by h.hour on conflict do nothing`,
    [endpoint_id, hours],
  )
  await catalogQuery(
    neap,
    `insert into scaling (endpoint_id, compute_id, from_cu, to_cu, reason, figures, scaled_at)
     select $1, 'earlier', 1 + n % 2, 2 - n % 2, case n % 2 when 0 then 'cpu' else 'less_use' end,
            '{"cpus_wanted": 1.9, "cpus_used": 0.3}', now() - make_interval(hours => n)
       from generate_series(1, 12) n`,
    [endpoint_id],
  )
}

/** So many finished starts of an endpoint in the past, each of which a client waited for. */
export async function insertWakes(neap: Neap, place: Place, count: number): Promise<void> {
  await catalogQuery(
    neap,
    `with moved as (update project set last_seq = last_seq + $4::int where id = $1 returning account_id, last_seq)
     insert into operation (id, account_id, project_id, branch_id, endpoint_id, seq, action, status, input, excludes,
                            shares, step, deadline_seconds, created_at, started_at, finished_at)
     select gen_random_uuid(), account_id, $1, $2, $3, last_seq - n + 1, 'start_compute', 'finished',
            '{"reason": "connection"}', '{}', '{}', 'compute_answers', 60, at, at, at + make_interval(secs => 0.3)
       from moved, generate_series(1, $4::int) n,
            lateral (select now() - make_interval(mins => 30 * n) as at) t`,
    [place.project_id, place.branch_id, place.endpoint_id, count],
  )
}
