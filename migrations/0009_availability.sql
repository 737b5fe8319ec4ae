-- When the branch of an endpoint is next checked. A new one first when some time is over, and each at a time of its own.
alter table endpoint add column check_at timestamptz not null default clock_timestamp() + (1 + random()) * interval '12 hours';
create index endpoint_check on endpoint (check_at) where deleted_at is null and not disabled;

-- What is on its way somewhere, or gone and not yet cleared, is little among many that sleep, and is looked for again and again.
create index endpoint_under_way on endpoint (branch_id)
 where pending_state is not null or holding_operation_id is not null or deleted_at is not null;
create index endpoint_with_compute on endpoint (created_at)
 where current_state = 'active' or pending_state = 'active' or compute_pid is not null;
create index branch_leftover on branch (id) where deleted_at is not null and stored;
