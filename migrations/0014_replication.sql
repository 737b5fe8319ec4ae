-- Roles may replicate only where the project wants logical replication: the next start of each branch takes it from the others.
update branch set config_version = config_version + 1 where deleted_at is null;
