-- Clones of a store take long whose files have many extents, as after random updates.

alter table store add column is_slow boolean not null default false;
create index store_slow on store (host_id) where is_slow;
