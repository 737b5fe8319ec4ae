-- For how long the moments of a branch stay within reach; null: as long as its project says.
alter table branch add column history_retention_seconds int;
