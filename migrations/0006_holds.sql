-- What unfinished operations take: alone (`exclusive`) or with others. Whether an operation is due is a look at those that take the same
-- before it, however many there are in its project. Kept by triggers, so that no writer can forget to.
create table operation_hold (
  project_id  text not null,
  resource    text not null,
  exclusive   boolean not null,
  seq         bigint not null,
  primary key (project_id, resource, exclusive, seq)
);

insert into operation_hold
select project_id, unnest(excludes), true, seq from operation where finished_at is null
union select project_id, unnest(shares), false, seq from operation where finished_at is null;

-- Who waits for an operation hears of its end on `operation`. Workers hear on `operation_due`, and only where something may have
-- become due: of what was inserted, and of an end that others stood behind.
drop trigger operation_inserted on operation;
drop trigger operation_changed on operation;
drop function operation_changed;

create function operation_inserted() returns trigger language plpgsql as $$
begin
  insert into operation_hold
  select new.project_id, unnest(new.excludes), true, new.seq union select new.project_id, unnest(new.shares), false, new.seq;
  perform pg_notify('operation_due', new.id::text);
  return null;
end $$;
create trigger operation_inserted after insert on operation for each row execute function operation_inserted();

-- Postgres commits one after the other what notifies, waiting for the disk each time. So a worker tells of an end after it has committed,
-- of many at once, and says with `neap.tells_later` that it will; of everybody else's ends the trigger tells.
create function tell_ended(ended operation) returns void language plpgsql as $$
begin
  perform pg_notify('operation', ended.id || ' ' || ended.status);
  perform pg_notify('operation_event', ended.project_id);
  if exists (select from operation_hold
              where project_id = ended.project_id and resource = any (ended.excludes || ended.shares) and exclusive and seq > ended.seq)
     or exists (select from operation_hold
                 where project_id = ended.project_id and resource = any (ended.excludes) and not exclusive and seq > ended.seq) then
    perform pg_notify('operation_due', '');
  end if;
end $$;

create function operation_ended() returns trigger language plpgsql as $$
begin
  delete from operation_hold
   where project_id = new.project_id and resource = any (new.excludes || new.shares) and exclusive = any ('{t,f}') and seq = new.seq;
  if current_setting('neap.tells_later', true) is distinct from 'on' then
    perform tell_ended(new);
  end if;
  return null;
end $$;
create trigger operation_ended after update of finished_at on operation for each row
  when (old.finished_at is null and new.finished_at is not null) execute function operation_ended();

create or replace function operation_event() returns trigger language plpgsql as $$
begin
  insert into operation_event (project_id, operation_id, status, failures_count, error, retry_at, started_at, updated_at, finished_at)
  values (new.project_id, new.id, new.status, new.failures_count, new.error, new.retry_at, new.started_at, new.updated_at, new.finished_at);
  if new.finished_at is null then
    perform pg_notify('operation_event', new.project_id);
  end if;
  return null;
end $$;

-- Locks the operations that are due, at most so many: those before which no unfinished one takes what they need. A row changed later than
-- now shows that the clock stepped back. They are looked at in the order of `run_at` until enough are found; left to itself, the
-- planner would look at all that are unfinished and sort them, since it never knows how many there are at the moment.
create function due_operations(actions text[], driven uuid[], most int) returns setof operation
  language plpgsql set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  return query
    select o.* from operation o
     where o.finished_at is null and o.action = any (actions) and o.id <> all (driven)
       and (o.run_at <= clock_timestamp() or o.updated_at > clock_timestamp())
       and not exists (
         select from operation_hold h
          where h.project_id = o.project_id and h.resource = any (o.excludes || o.shares) and h.exclusive and h.seq < o.seq)
       and (o.passes_shared or not exists (
         select from operation_hold h
          where h.project_id = o.project_id and h.resource = any (o.excludes) and not h.exclusive and h.seq < o.seq))
     order by o.run_at
     limit most for no key update of o skip locked;
end $$;

-- Rows that change so often leave much behind: it goes by itself in small portions.
alter table operation set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
alter table operation_hold set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
