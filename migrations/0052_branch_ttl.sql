-- How long after it was set the expiry of a branch is: a reset of the branch begins that time anew.
alter table branch add column ttl_seconds int;
update branch set ttl_seconds = greatest(0, extract(epoch from expires_at - updated_at))::int where expires_at is not null;
