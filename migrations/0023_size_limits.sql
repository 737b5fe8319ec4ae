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
