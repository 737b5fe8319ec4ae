-- The room of a host, in CU: what the sizes of the computes on it may sum up to. Null: it is not limited.
alter table host add column capacity_cu double precision;

-- The host on which an endpoint has room for its compute, from before a start until it is idle; or, with `waits_since`, waits for it.
alter table endpoint add column room_host_id text references host on update cascade on delete set null;
alter table endpoint add column waits_since timestamptz;
-- The size that its compute is to have, as long as the host has less room; null: it has it.
alter table endpoint add column wanted_cu double precision;
create index endpoint_room on endpoint (room_host_id) include (cu, waits_since) where room_host_id is not null;
update endpoint e set room_host_id = c.host_id from compute c where c.id = e.compute_id and c.ended_at is null;

-- What an operation waits for at the moment; null: for nothing.
alter table operation add column wait_reason text;

-- The CU that a host has left. To take some of it, lock the host first; an endpoint is locked before a host.
create function room_left(host text) returns double precision language sql volatile as $$
  select coalesce(capacity_cu, 'infinity')
         - (select coalesce(sum(cu), 0) from endpoint e
             where e.room_host_id = h.id and e.waits_since is null and e.deleted_at is null)
    from host h where h.id = host
$$;

-- Gives the compute of an endpoint room on a host, in order: not before a smaller or equal one that waits longer. A larger one that does not
-- fit keeps no room from others. Returns how many seconds it has waited without success; null when it has room.
create function take_room(endpoint text, host text) returns double precision language plpgsql volatile as $$
declare
  e endpoint%rowtype;
  waited double precision;
begin
  -- A step that runs again must not wait for its own first run, which may hold the row.
  if exists (select from endpoint x where x.id = take_room.endpoint and x.room_host_id = take_room.host and x.waits_since is null) then
    return null;
  end if;
  select * into e from endpoint x where x.id = take_room.endpoint for no key update;
  if e.room_host_id = take_room.host and e.waits_since is null then return null; end if;
  perform set_config('synchronous_commit', 'off', true);
  perform from host h where h.id = take_room.host for no key update;
  if e.cu <= room_left(take_room.host) and not exists (
    select from endpoint x
     where x.room_host_id = take_room.host and x.waits_since < coalesce(e.waits_since, 'infinity') and x.cu <= e.cu
       and x.deleted_at is null)
  then
    update endpoint set room_host_id = take_room.host, waits_since = null where id = e.id;
    return null;
  end if;
  update endpoint set room_host_id = take_room.host, waits_since = coalesce(waits_since, clock_timestamp()) where id = e.id
    returning extract(epoch from clock_timestamp() - waits_since) into waited;
  return waited;
end $$;

-- Resizes a running compute to what is wanted, or to what the host has left, and records it. Returns its size; null when the endpoint has
-- another compute or size by now.
create function scale_endpoint(endpoint text, compute text, has double precision, wants double precision, why text, measured jsonb)
  returns double precision language plpgsql volatile as $$
declare
  e endpoint%rowtype;
  granted double precision := wants;
begin
  select * into e from endpoint x
   where x.id = scale_endpoint.endpoint and x.compute_id = compute and x.cu = has and x.deleted_at is null
     and wants between x.min_cu and x.max_cu for no key update;
  if not found then return null; end if;
  if wants > has then
    perform from host h where h.id = e.room_host_id for no key update;
    granted := least(wants, has + greatest(0, floor(4 * room_left(e.room_host_id)) / 4));
  end if;
  if (granted, nullif(wants, granted)) is distinct from (e.cu, e.wanted_cu) then
    update endpoint set cu = granted, wanted_cu = nullif(wants, granted) where id = e.id;
  end if;
  if granted <> has then
    insert into scaling (endpoint_id, compute_id, from_cu, to_cu, wanted_cu, reason, figures)
    values (e.id, compute, has, granted, nullif(wants, granted), why, measured);
  end if;
  return granted;
end $$;
alter table scaling add column wanted_cu double precision;

-- Wakes the start that has waited longest of those that fit, once an endpoint has left room on a host, or no longer waits before others.
create function room_changed() returns trigger language plpgsql as $$
declare
  waiting endpoint%rowtype;
begin
  if not exists (select from endpoint where room_host_id = old.room_host_id and waits_since is not null) then return null; end if;
  select * into waiting from endpoint
   where room_host_id = old.room_host_id and waits_since is not null and deleted_at is null and cu <= room_left(old.room_host_id)
   order by waits_since limit 1;
  if not found then return null; end if;
  update operation set run_at = clock_timestamp()
   where id = (select id from operation
                where project_id = waiting.project_id and endpoint_id = waiting.id and finished_at is null and wait_reason is not null
                order by seq limit 1 for no key update skip locked);
  perform pg_notify('operation_due', '');
  return null;
end $$;
create trigger room_changed after update of room_host_id, waits_since, cu, deleted_at on endpoint for each row
  when (old.room_host_id is not null and (old.room_host_id is distinct from new.room_host_id or new.cu < old.cu
        or new.deleted_at is not null or (old.waits_since is not null and new.waits_since is null)))
  execute function room_changed();
create trigger room_removed after delete on endpoint for each row
  when (old.room_host_id is not null) execute function room_changed();
