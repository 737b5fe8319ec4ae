-- Trials of backups: the newest one of a branch is fetched, recovered and checked.

create table backup_drill (
  id bigint generated always as identity primary key,
  branch_id text not null references branch (id) on delete cascade,
  requested_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  finished_at timestamptz,
  -- The backup, and until when all commits were there.
  label text,
  saved_until timestamptz,
  bytes bigint,
  databases int,
  tables int,
  indexes int,
  row_count bigint,
  -- Why it failed.
  error text
);
create index backup_drill_branch on backup_drill (branch_id, id desc);
create index backup_drill_open on backup_drill (id) where finished_at is null;
