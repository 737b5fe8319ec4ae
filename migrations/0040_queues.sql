-- The operation that this one stands behind, as a claim has found; null: not known. Claims look only at operations without it, so that a
-- look costs the same however many stand behind each other.
alter table operation add column behind uuid;
drop index operation_due;
create index operation_due on operation (action, run_at) where finished_at is null and behind is null;
create index operation_behind on operation (behind) where finished_at is null and behind is not null;

-- Ended operations that others are recorded to stand behind. The next look clears that: an end that wrote to the rows of later operations
-- would wait for transactions that cancel those, which may wait for the endpoint that the end has locked.
create table operation_release (
  operation_id  uuid primary key
);

-- The last unfinished operation that keeps this one from its turn; null: none does, and none ever will.
create function operation_predecessor(o operation) returns bigint language sql stable as $$
  select max(found.seq)
    from (select resource, true as exclusive from unnest(o.excludes || o.shares) resource
          union all select resource, false from unnest(o.excludes) resource where not o.passes_shared) wanted
         cross join lateral (
           select h.seq from operation_hold h
            where h.project_id = o.project_id and h.resource = wanted.resource and h.exclusive = wanted.exclusive
              and h.seq < o.seq
            order by h.seq desc limit 1) found
$$;

create or replace function operation_ended() returns trigger language plpgsql
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  -- A look that records what stands behind operations of this project has the lock alone: it sees this end, or this sees its records.
  perform pg_advisory_xact_lock_shared(7302, hashtext(new.project_id));
  delete from operation_hold
   where project_id = new.project_id and resource = any (new.excludes || new.shares) and exclusive = any ('{t,f}') and seq = new.seq;
  if exists (select from operation where behind = new.id and finished_at is null) then
    insert into operation_release values (new.id) on conflict do nothing;
  end if;
  if current_setting('neap.tells_later', true) is distinct from 'on' then
    perform tell_ended(new);
  end if;
  return null;
end $$;

-- Lets looks find the operations that stood behind ended ones; returns how many. Waits for no lock: what is locked is left to the next look,
-- as are those beyond a number that one look can bear.
create function release_operations() returns int language plpgsql
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  ended uuid;
  released int;
  sum int := 0;
begin
  for ended in select operation_id from operation_release for update skip locked loop
    update operation set behind = null
     where id in (select id from operation where behind = ended and finished_at is null limit 500 for no key update skip locked);
    get diagnostics released = row_count;
    sum := sum + released;
    if not exists (select from operation where behind = ended and finished_at is null) then
      delete from operation_release where operation_id = ended;
    end if;
  end loop;
  -- The look of another worker, of that operation's host, may have passed this by meanwhile.
  if sum > 0 then perform pg_notify('operation_due', ''); end if;
  return sum;
end $$;

-- The conditions of the next two functions that no index is to serve are written so that none can: a plan that was made while the table was
-- small is kept, and then each index seems as good as the primary key.

-- Records for blocked operations which one they stand behind; returns for how many. Waits for no lock.
create function stand_behind(blocked uuid[]) returns int language plpgsql
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  project text;
  recorded int;
  sum int := 0;
begin
  for project in select distinct o.project_id || '' from operation o where o.id = any (blocked) loop
    continue when not pg_try_advisory_xact_lock(7302, hashtext(project));
    -- A statement of its own: it sees each operation that ended before the lock was taken.
    with found as (
      select o.id, operation_predecessor(o) as seq from operation o
       where o.id = any (blocked) and o.project_id || '' = project and num_nulls(o.finished_at, o.behind) = 2
         for no key update skip locked)
    -- The order makes (project_id, seq) the only index that serves: another would read all operations of the project.
    update operation o set behind = p.id
      from found cross join lateral (
             select id from operation where project_id = project and seq <= found.seq order by seq desc limit 1) p
     where o.id = found.id;
    get diagnostics recorded = row_count;
    sum := sum + recorded;
  end loop;
  return sum;
end $$;

-- An operation that is queued behind another is hidden from claims before its own transaction commits, so that no look finds a queue to
-- sort. Deferred to the commit: the lock on the project keeps its ends off, and a transaction that went on with it could wait for the
-- endpoint that an end has locked. Without the lock the next look does the same.
create function operation_waits() returns trigger language plpgsql security definer set search_path = public, pg_temp
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  if operation_predecessor(new) is not null then
    perform stand_behind(array[new.id]);
  end if;
  return null;
end $$;
create constraint trigger operation_waits after insert on operation deferrable initially deferred
  for each row execute function operation_waits();

drop function due_operations(text[], uuid[], int, text);
-- For each lane of a worker: locks the operations that are due on a host, at most as many as it has places for, and returns them; and returns
-- the ids of blocked ones that it met, for stand_behind(). Projects take turns, and none gets more than `share` places, with those that it
-- has (`busy` names a project for each). Of a lane's due operations it looks at a few times as many as there are places.
-- A row changed later than now shows that the clock stepped back.
create function due_operations(lanes jsonb, driven uuid[], host text) returns table (due operation, blocked_id uuid)
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
  for lane in select * from jsonb_to_recordset(lanes) l (actions text[], most int, busy text[], share int) loop
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
                        and d.project_id <> all (full_projects)
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
