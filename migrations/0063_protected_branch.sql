-- Protected branches are few: their backups are tried out.
create index branch_protected on branch (id) where protected and deleted_at is null;
