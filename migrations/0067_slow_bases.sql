-- Clones of a base take long whose files have many extents, as after random updates.

alter table base add column is_slow boolean not null default false;
create index base_slow on base (store_id) where is_slow;
