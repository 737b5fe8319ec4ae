-- The space of stores: the bytes of a store's files, of their blocks on the disk, and of the blocks that no other store has, as the last pass over all
-- stores of its host found them. A table of its own: a pass writes only rows that have changed, and no trigger of store runs.
create table store_space (
  store_id text primary key references store on delete cascade,
  apparent_bytes bigint not null,
  real_bytes bigint not null,
  -- Null where the filesystem does not tell.
  own_bytes bigint,
  history_bytes bigint,
  -- False: its own blocks are at least so many.
  is_exact boolean not null
);

-- The blocks that several stores of a project share, and no store of another project.
create table project_space (
  project_id text not null references project on delete cascade,
  host_id text not null references host on update cascade on delete cascade,
  shared_bytes bigint not null,
  primary key (project_id, host_id)
);

-- When the last pass over a host's stores began; the bytes of their files; and of their blocks, each counted once.
alter table host add column space_measured_at timestamptz;
alter table host add column apparent_bytes bigint;
alter table host add column real_bytes bigint;
