-- When the branch of an endpoint is next checked. A new one first when some time is over, and each at a time of its own.
alter table endpoint add column check_at timestamptz not null default clock_timestamp() + (1 + random()) * interval '12 hours';
create index endpoint_check on endpoint (check_at) where deleted_at is null and not disabled;
