-- The history of stores: WAL that is kept since a base, a copy of the data directory at a moment, or since the template
-- or the parent's history that a store was made of.

-- The first segment with WAL of the store's own; null until it is known.
alter table store add column first_segment text;
-- Whether all WAL before it is in the history of the store's parent, or in its template; null until it is known.
alter table store add column is_chained boolean;
-- Whether the history that follows its beginning was removed up to a base: only stores that were made of it need it.
alter table store add column is_cut boolean not null default false;
-- From where and when on a store made from a template is its user's: its first roles and databases are made.
alter table store add column begins_lsn pg_lsn;
alter table store add column begins_at timestamptz;
-- The store that its branch had before a restore; it may be removed.
alter table store add column previous_id text;
-- The last segment that was archived.
alter table store add column archived_segment text;
-- The bytes of its archived WAL.
alter table store add column history_bytes bigint not null default 0;

create index store_parent on store (parent_id) where is_chained;

create table base (
  store_id text not null references store (id) on delete cascade,
  number int not null,
  -- No commit before `started_at` is missing in it, and none after `made_at` is in it.
  started_at timestamptz not null,
  made_at timestamptz not null,
  -- It can be recovered to any position from here on, with WAL from this segment on.
  lsn pg_lsn not null,
  segment text not null,
  -- Of its files, where it shares no blocks with its store; otherwise 0.
  bytes bigint not null,
  -- As of the store.
  is_cut boolean not null default false,
  primary key (store_id, number)
);

create index base_made on base (made_at);

-- The moment of its parent that a branch was made of, as asked for.
alter table branch add column parent_timestamp timestamptz;
alter table branch add column parent_lsn text;
