-- Which installation this is: each host's data directory has a note of the id, and one with another id is refused.
create table installation (
  id          uuid primary key default gen_random_uuid(),
  -- Raised when the catalog is found to be older than a disk, as after a restore from a backup. Fences begin with it.
  epoch       bigint not null default 0,
  is_only_row boolean not null unique default true check (is_only_row)
);
insert into installation default values;

-- Counts heartbeats. The host notes the count on its disk: where that is ahead, the catalog is the older one.
alter table host add column beats bigint not null default 0;
