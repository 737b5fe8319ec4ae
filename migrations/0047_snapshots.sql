-- Snapshots: the data that a branch had at a moment, kept until it is removed. They are in a branch that clients do not
-- see: it counts as deleted from the beginning, and has its store as long as its row is here.

create table snapshot (
  id text primary key,
  account_id uuid not null references account,
  project_id text not null references project on delete cascade,
  branch_id text not null unique references branch on delete cascade,
  -- The branch whose data it has; that may be gone.
  source_branch_id text not null,
  name text not null,
  -- The moment of its data: as asked for, else when it was taken.
  lsn text,
  taken_of timestamptz,
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  check ((lsn is null) <> (taken_of is null))
);

create index snapshot_project on snapshot (project_id, created_at);
create index snapshot_expiry on snapshot (expires_at) where expires_at is not null;

-- Of a branch that was made of a snapshot: the snapshot, the branch that it was made to replace, and whether it did.
alter table branch add column restored_from text;
alter table branch add column restored_as text;
alter table branch add column restore_status text check (restore_status in ('restored', 'finalized'));
