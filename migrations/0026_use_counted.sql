-- The size from which on a branch is measured that grows although its compute refuses writes: its limit, or its size when the limit was lowered
-- below that. It belongs to the branch: a new endpoint begins no new count.
alter table branch add column refused_bytes bigint;
update branch b set refused_bytes = e.refused_bytes from endpoint e where e.branch_id = b.id and e.refused_bytes is not null;
alter table endpoint drop column refused_bytes;

-- As before; also a store whose last measurement failed has no bytes once it is removed.
drop trigger store_removed on store;
create trigger store_removed after delete on store for each row execute function store_sized();

-- As before, but an end that sets `metered_at` counts up to now: Neap made it. It may come some minutes late, not longer: the machine may have
-- slept. When an end is only noticed, the time since the last minute that was counted is left out: nobody knows how long the compute ran.
-- Postgres notes its start in whole seconds, so a compute counts from the end of the one before, if that is later.
create or replace function endpoint_metered() returns trigger language plpgsql as $$
declare
  upto timestamptz := clock_timestamp();
  late interval := case when new.metered_at is distinct from old.metered_at then interval '15 minutes' else interval '70 seconds' end;
begin
  if old.compute_id is not null and old.metered_at is not null and new.metered_at is not null then
    if new.compute_id is distinct from old.compute_id and upto > old.metered_at + late then
      upto := old.metered_at;
    end if;
    perform count_compute(old.project_id, old.branch_id, old.cu, old.metered_at, upto);
  end if;
  new.metered_at := case when new.compute_id is null then null
                         when old.compute_id is null then least(clock_timestamp(), greatest(new.started_at, (
                           select max(c.ended_at) from compute c where c.endpoint_id = new.id)))
                         else clock_timestamp() end;
  return new;
end $$;

-- Counts the running computes of a host up to now, in the order of their rows in `consumption`, as all others count. `skips` leaves out the time
-- since they were last counted.
create function meter_computes(host text, skips bool) returns void language plpgsql volatile as $$
declare
  running record;
begin
  for running in
    select e.id from endpoint e join compute c on c.id = e.compute_id
     where c.host_id = host and c.ended_at is null order by e.project_id, e.branch_id for no key update of e skip locked
  loop
    update endpoint set metered_at = case when skips then null else clock_timestamp() end where id = running.id;
  end loop;
end $$;

-- As before; a deleted endpoint takes room until its compute has ended.
create or replace function room_used(host text) returns double precision language sql volatile as $$
  select coalesce(sum(cu), 0) from endpoint e
   where e.room_host_id = host and e.waits_since is null and (e.deleted_at is null or e.compute_id is not null)
$$;

-- The sizes of projects' branches that held in a time or later: of each branch the last one before, and those since. The branches are found one by
-- one in the index, whatever number of sizes they have.
create function storage_sizes(projects text[], from_time timestamptz) returns setof storage_size language sql stable as $$
  with recursive found as (
    select p.id as project_id, (select min(s.branch_id) from storage_size s where s.project_id = p.id) as branch_id from unnest(projects) p (id)
    union all
    select f.project_id, (select min(s.branch_id) from storage_size s where s.project_id = f.project_id and s.branch_id > f.branch_id)
      from found f where f.branch_id is not null)
  select held.* from found f, lateral (
    (select s.* from storage_size s
      where s.project_id = f.project_id and s.branch_id = f.branch_id and s.since < from_time order by s.since desc limit 1)
    union all
    select s.* from storage_size s where s.project_id = f.project_id and s.branch_id = f.branch_id and s.since >= from_time) held
$$;
