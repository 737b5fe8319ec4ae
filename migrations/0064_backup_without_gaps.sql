-- The repository keeps WAL without a gap between backups of a store, so that moments between them can be restored.

-- The segment from which on it is there.
alter table store_backup add column first_segment text;
update store_backup set first_segment = segment;
alter table store_backup alter column first_segment set not null;
