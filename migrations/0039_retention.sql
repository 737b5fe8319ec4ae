-- Deleting a branch or a project checks the rows that refer to it; without these indexes each check reads a whole table.
create index branch_project on branch (project_id, id);
create index endpoint_of_branch on endpoint (branch_id);
create index notice_project on notice (project_id) where project_id is not null;
-- Read by clean-up: projects, and branches of projects that still exist, whose rows are past their retention.
create index project_deleted on project (deleted_at) where deleted_at is not null;
create index branch_removed on branch (deleted_at) where deleted_at is not null and store_id is null;
create index storage_size_expiry on storage_size (since);
