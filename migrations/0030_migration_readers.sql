-- Each part compares the catalog's migrations with its own before it starts.
do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  grant select on migration to neap_proxy;
end $$;
