-- The image of a host's stores, if it has one, as its worker last saw it. It changes seldom: what is free in it is the host's disk_free_bytes.
alter table host add column image jsonb;
-- By how much the disk of its stores may still grow by itself.
alter table host add column growable_bytes bigint not null default 0;
