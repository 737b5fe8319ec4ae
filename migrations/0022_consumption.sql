-- What each branch has used in an hour and in a calendar month (UTC). What is deleted goes on to count for its project.
create table consumption (
  project_id       text not null references project on delete cascade,
  branch_id        text not null,
  period           text not null check (period in ('hour', 'month')),
  since            timestamptz not null,
  -- CU times seconds, and seconds, for which its compute ran.
  compute_seconds  double precision not null default 0,
  active_seconds   double precision not null default 0,
  -- WAL, and bytes sent to clients.
  written_bytes    bigint not null default 0,
  transfer_bytes   bigint not null default 0,
  primary key (project_id, period, since, branch_id)
);
create index consumption_expiry on consumption (period, since);

insert into consumption (project_id, branch_id, period, since, transfer_bytes)
select project_id, branch_id, 'month', month::timestamp at time zone 'UTC', sum(bytes_to_clients) from endpoint_traffic group by 1, 2, 4;

-- The bytes of a branch's files from a time on, until its next row. `is_root`: it has no parent.
create table storage_size (
  project_id  text not null references project on delete cascade,
  branch_id   text not null,
  is_root     bool not null,
  since       timestamptz not null default clock_timestamp(),
  bytes       bigint not null
);
create index storage_size_history on storage_size (project_id, branch_id, since);

-- Until when the compute of an endpoint is counted; null while none runs.
alter table endpoint add column metered_at timestamptz;
update endpoint set metered_at = clock_timestamp() where compute_id is not null;
-- Up to where the WAL of a store is counted: a clone begins where its parent was.
alter table store add column wal_position pg_lsn;

create function periods_of(at timestamptz) returns table (period text, since timestamptz) language sql immutable as $$
  values ('hour', date_trunc('hour', at, 'UTC')), ('month', date_trunc('month', at, 'UTC'))
$$;

-- Counts a compute of this size that ran from one time to another, in each hour that this touches.
create function count_compute(project text, branch text, cu double precision, from_time timestamptz, to_time timestamptz)
  returns void language sql volatile as $$
  insert into consumption as c (project_id, branch_id, period, since, compute_seconds, active_seconds)
  select project, branch, p.period, p.since, sum(cu * seconds), sum(seconds)
    from (select h.hour, extract(epoch from least(to_time, h.hour + interval '1 hour') - greatest(from_time, h.hour)) as seconds
            from generate_series(date_trunc('hour', from_time, 'UTC'), to_time, interval '1 hour') h (hour)) part,
         periods_of(part.hour) p
   where seconds > 0 group by p.period, p.since order by 3, 4
  on conflict (project_id, period, since, branch_id) do update
     set compute_seconds = c.compute_seconds + excluded.compute_seconds, active_seconds = c.active_seconds + excluded.active_seconds
$$;

-- Counts the running compute of an endpoint up to a change of its size or its end, and whenever `metered_at` is set. A worker sets that once a
-- minute, so when an end is noticed much later the time since then is left out: nobody knows how long it ran.
create function endpoint_metered() returns trigger language plpgsql as $$
declare
  upto timestamptz := clock_timestamp();
begin
  if old.compute_id is not null and old.metered_at is not null and new.metered_at is not null then
    if new.compute_id is distinct from old.compute_id and upto > old.metered_at + interval '70 seconds' then
      upto := old.metered_at;
    end if;
    perform count_compute(old.project_id, old.branch_id, old.cu, old.metered_at, upto);
  end if;
  new.metered_at := case when new.compute_id is null then null
                         when old.compute_id is null then least(new.started_at, clock_timestamp())
                         else clock_timestamp() end;
  return new;
end $$;
create trigger endpoint_metered before update of cu, compute_id, metered_at on endpoint for each row
  when (old.compute_id is not null or new.compute_id is not null) execute function endpoint_metered();

-- An endpoint that was deleted is removed once its compute has stopped.
create function endpoint_removed() returns trigger language plpgsql as $$
begin
  if clock_timestamp() < old.metered_at + interval '70 seconds' and exists (select from project where id = old.project_id) then
    perform count_compute(old.project_id, old.branch_id, old.cu, old.metered_at, clock_timestamp());
  end if;
  return null;
end $$;
create trigger endpoint_removed after delete on endpoint for each row when (old.compute_id is not null) execute function endpoint_removed();

-- Counts the WAL of stores up to these positions.
create function count_wal(stores text[], positions pg_lsn[]) returns void language plpgsql volatile as $$
begin
  with now_at as (select * from unnest(stores, positions) n (id, position)),
  before as (select s.id, s.branch_id, s.wal_position from store s join now_at n using (id) for no key update of s skip locked),
  moved as (
    update store s set wal_position = n.position from now_at n join before b using (id)
     where s.id = n.id and (b.wal_position is null or b.wal_position < n.position)
    returning b.branch_id, n.position - b.wal_position as bytes)
  insert into consumption as c (project_id, branch_id, period, since, written_bytes)
  select b.project_id, b.id, p.period, p.since, sum(m.bytes)
    from moved m join branch b on b.id = m.branch_id, periods_of(clock_timestamp()) p
   where m.bytes > 0 group by 1, 2, 3, 4 order by 1, 3, 4, 2
  on conflict (project_id, period, since, branch_id) do update set written_bytes = c.written_bytes + excluded.written_bytes;
end $$;

-- Notes the size of a branch when it has changed: after a measurement, an exchange of stores, or the end of its data.
create function store_sized() returns trigger language plpgsql as $$
begin
  insert into storage_size (project_id, branch_id, is_root, bytes)
  select b.project_id, b.id, b.parent_id is null, case when tg_op = 'DELETE' then 0 else new.bytes end
    from branch b where b.id = case when tg_op = 'DELETE' then old.branch_id else new.branch_id end
     and (tg_op = 'DELETE' or new.bytes is not null);
  return null;
end $$;
create trigger store_sized after update of bytes, branch_id on store for each row
  when ((old.bytes, old.branch_id) is distinct from (new.bytes, new.branch_id)) execute function store_sized();
create trigger store_removed after delete on store for each row when (old.bytes is not null) execute function store_sized();

do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  grant select, insert, update on consumption to neap_proxy;
end $$;
