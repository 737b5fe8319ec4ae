-- The bytes of a branch's databases, without WAL, when its store was last measured; null before.
alter table branch add column logical_bytes bigint;

-- Why its compute accepts no writes by default; null: it accepts them.
alter table endpoint add column writes_refused text check (writes_refused in ('branch_size', 'host_disk'));
-- The size of its branch when it began to refuse them because of that size. A tenant may go on with BEGIN READ WRITE, but not for ever.
alter table endpoint add column refused_bytes bigint;

create index endpoint_refusing on endpoint (id) where writes_refused is not null;

-- The filesystem of a host's data directory, by its last heartbeat, and whether it is so full that computes accept no writes.
alter table host add column disk_bytes bigint, add column disk_free_bytes bigint, add column disk_short bool not null default false;

drop trigger endpoint_changed on endpoint;
create trigger endpoint_changed after insert or update of current_state, pending_state, holding_operation_id, compute_id, disabled,
  pooler_enabled, branch_id, suspend_timeout_seconds, min_cu, max_cu, limit_error, writes_refused, deleted_at on endpoint
  for each row execute function endpoint_changed();

-- The used bytes of a host's disk, once an hour, for forecasts.
create table host_disk (
  host_id     text not null references host on update cascade on delete cascade,
  at          timestamptz not null default clock_timestamp(),
  used_bytes  bigint not null
);
create index host_disk_history on host_disk (host_id, at);

-- How far limits are used from 60 percent on: a host's disk, a branch's size, a project's quotas of the month.
create table notice (
  id          uuid primary key default gen_random_uuid(),
  name        text not null,
  -- The host, branch or project.
  subject_id  text not null,
  -- The host whose worker watches it; null for quotas of the month, which any worker watches.
  host_id     text references host on update cascade on delete cascade,
  account_id  uuid references account on delete cascade,
  project_id  text references project on delete cascade,
  level       int not null,
  used        double precision not null,
  most        double precision not null,
  -- When it will be used up if use goes on as in the last day; null: not within a year, or not in this month.
  full_at     timestamptz,
  noticed_at  timestamptz not null default clock_timestamp(),
  unique (name, subject_id)
);
create index notice_account on notice (account_id);

create index project_quota on project (id) where settings ? 'quota';

-- The CU that the computes of a host take.
create function room_used(host text) returns double precision language sql volatile as $$
  select coalesce(sum(cu), 0) from endpoint e
   where e.room_host_id = host and e.waits_since is null and e.deleted_at is null
$$;

-- As before, by the sum above.
create or replace function room_left(host text) returns double precision language sql volatile as $$
  select coalesce(capacity_cu, 'infinity') - room_used(h.id) from host h where h.id = host
$$;
