-- When snapshots of a branch are taken by themselves.

create table snapshot_schedule (
  branch_id text primary key references branch on delete cascade,
  -- As the API takes them: frequency, hour, day, month, retention_seconds.
  items jsonb not null,
  next_at timestamptz not null
);

create index snapshot_schedule_due on snapshot_schedule (next_at);

alter table snapshot add column is_scheduled boolean not null default false;
