-- The last places for copies are for accounts that copy nothing yet.

-- For each lane of a worker: locks the operations that are due on a host, at most as many as it has places for, and returns them; and returns
-- the ids of blocked ones that it met, for stand_behind(). Projects take turns, and none gets more than `share` places, with those that it
-- has (`busy` names a project for each); an account in `left_out` gets none. Of a lane's due operations it looks at a few times as many as
-- there are places.
-- A row changed later than now shows that the clock stepped back.
create or replace function due_operations(lanes jsonb, driven uuid[], host text) returns table (due operation, blocked_id uuid)
  language plpgsql rows 10
  set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  lane record;
  now_at timestamptz := clock_timestamp();
  -- A parameter bounds the index scan, which a volatile function does not. Postponed operations lie beyond.
  last_at timestamptz := now_at + interval '1 day';
  full_projects text[];
  ready uuid[];
  blocked uuid[];
begin
  for lane in select * from jsonb_to_recordset(lanes) l (actions text[], most int, busy text[], share int, left_out uuid[]) loop
    full_projects := array(select p from unnest(lane.busy) p group by p having count(*) >= lane.share);
    select array_agg(x.id order by x.turn, x.run_at) filter (where x.behind is null and x.turn <= lane.share),
           array_agg(x.id) filter (where x.behind is not null)
      into ready, blocked
      from (select (o.op).id, (o.op).run_at, p.behind,
                   (select count(*) from unnest(lane.busy) b where b = (o.op).project_id)
                     + row_number() over (partition by (o.op).project_id, p.behind is null order by (o.op).run_at) as turn
              from unnest(lane.actions) a
                   cross join lateral (
                     select d as op from operation d
                      where d.action = a and d.finished_at is null and d.behind is null and d.run_at <= last_at
                        and (d.run_at <= now_at or d.updated_at > now_at)
                        and (d.host_id is null or d.host_id = host) and d.id <> all (driven)
                        and d.project_id <> all (full_projects) and d.account_id <> all (coalesce(lane.left_out, '{}'))
                      order by d.run_at limit 16 + 2 * lane.most) o
                   cross join lateral (select operation_predecessor(o.op)) p (behind)) x;
    return query
      select o, null::uuid from unnest(ready) with ordinality r (id, place) join operation o on o.id = r.id
       where num_nulls(o.finished_at, o.behind) = 2 and (o.run_at <= now_at or o.updated_at > now_at)
       order by r.place
       limit lane.most for no key update of o skip locked;
    return query select null::operation, b from unnest(blocked) b;
  end loop;
end $$;
