-- Which store the compute of an endpoint serves: the passwords of Neap's own roles there are derived by it.
alter table endpoint add column compute_store_id text;
update endpoint e set compute_store_id = b.store_id from branch b where b.id = e.branch_id and e.compute_host is not null;
