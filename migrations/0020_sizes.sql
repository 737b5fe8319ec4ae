-- The size that the compute of an endpoint has now, in CU, within its limits; a start begins with the lower one.
alter table endpoint add column cu double precision not null default 0.25;
update endpoint set cu = min_cu;
-- Why the compute that runs is not held to its size; null: it is, or none runs.
alter table endpoint add column limit_error text;

-- Each change of the size of a running compute, with its reason and what was measured.
create table scaling (
  id           bigint generated always as identity primary key,
  endpoint_id  text not null references endpoint on delete cascade,
  compute_id   text not null,
  from_cu      double precision not null,
  to_cu        double precision not null,
  reason       text not null check (reason in ('request', 'cpu', 'memory', 'cache', 'less_use')),
  figures      jsonb,
  scaled_at    timestamptz not null default clock_timestamp()
);
create index scaling_endpoint on scaling (endpoint_id, id);
create index scaling_expiry on scaling (scaled_at);

create function endpoint_scaled() returns trigger language plpgsql as $$
begin
  perform tell_webhooks(new.account_id, new.project_id, '{endpoint.scaled}', to_jsonb(new));
  return null;
end $$;
create trigger endpoint_scaled after update of cu on endpoint for each row
  when (old.cu <> new.cu and old.current_state = 'active' and new.current_state = 'active') execute function endpoint_scaled();

-- Why computes are not held to their sizes on this host; null: they are.
alter table host add column limit_error text;

-- The data directory of its worker: a copy of it, with the same id, must not register while that one lives.
alter table host add column place text;

drop trigger endpoint_changed on endpoint;
create trigger endpoint_changed after insert or update of current_state, pending_state, holding_operation_id, compute_id, disabled,
  pooler_enabled, branch_id, suspend_timeout_seconds, min_cu, max_cu, limit_error, deleted_at on endpoint
  for each row execute function endpoint_changed();

-- What each host offers, instead of one setting that the workers of all hosts overwrote.
alter table host add column pg_versions int[], add column egress_error text;
delete from setting where name in ('pg_versions', 'egress_missing');

-- The host for a new store: that of the store that it is cloned from, or one that has this version of Postgres and whose worker was heard of in
-- the last minute, else the one heard of last.
drop function host_for(text);
create function host_for(parent_branch text, version int) returns text language sql volatile as $$
  select coalesce((select s.host_id from branch b join store s on s.id = b.store_id where b.id = parent_branch),
                  (select id from (select id, heartbeat_at, coalesce(version = any (pg_versions), false) as has,
                                          coalesce(heartbeat_at > clock_timestamp() - interval '1 minute', false) as lives from host) h
                    order by lives desc, has desc, case when lives then random() end, heartbeat_at desc nulls last limit 1))
$$;
