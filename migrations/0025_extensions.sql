-- The extensions that tenants may create on a host, by the version of Postgres: a list of name and default_version for each.
alter table host add column extensions jsonb not null default '{}';
