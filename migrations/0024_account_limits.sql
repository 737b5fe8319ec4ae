-- The plan that was set for an account, and its own limits; null: those of the settings of this Neap.
alter table account add column own_plan text check (own_plan in ('free', 'paid')),
  add column projects_limit int check (projects_limit > 0), add column branches_limit int check (branches_limit > 0);

-- What all its projects may use in a calendar month (UTC), by the names of projects' quotas, and the one that is used up.
alter table account add column quota jsonb not null default '{}', add column quota_exceeded text;

do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  grant select (quota_exceeded) on account to neap_proxy;
end $$;
