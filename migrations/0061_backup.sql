-- What the repository of backups has of each store.

create table store_backup (
  store_id text primary key references store (id) on delete cascade,
  -- The backups of one installation in its repository.
  series text not null,
  -- The newest backup: its name there, and the base that it is of.
  label text not null,
  started_at timestamptz not null,
  made_at timestamptz not null,
  lsn pg_lsn not null,
  segment text not null,
  bytes bigint not null,
  stored_bytes bigint not null,
  -- The last complete segment after it, and up to where the WAL is there.
  pushed_segment text,
  pushed_lsn pg_lsn,
  pushed_at timestamptz,
  -- Another backup is to be made now.
  is_due boolean not null default false
);

-- When a store is to be compared with the repository; null once all of it is there and nothing runs.
alter table store add column backup_due_at timestamptz default clock_timestamp();
-- Why that failed the last time.
alter table store add column backup_error text;
create index store_backup_due on store (host_id, backup_due_at) where backup_due_at is not null;

create function compute_to_back_up() returns trigger language plpgsql as $$
begin
  update store set backup_due_at = clock_timestamp() where id = new.store_id and backup_due_at is null;
  return null;
end $$;
create trigger compute_to_back_up after insert on compute for each row execute function compute_to_back_up();
