-- Proxies log in as a role of their own: they read who may enter, ask for a start, and write what passed. Passwords that can be decrypted, API
-- keys, webhooks, replies and the audit list are out of their reach. In a catalog where roles may not be made proxies log in as all parts do.
do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then create role neap_proxy nologin; end if;
exception when insufficient_privilege then null;
end $$;

do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  execute format('grant connect on database %I to neap_proxy', current_database());
  grant usage on schema public to neap_proxy;
  grant select on endpoint, operation, proxy, proxy_hold, endpoint_traffic, traffic_writer, refused_access, operation_hold to neap_proxy;
  grant select (id, account_id, deleted_at, settings, last_seq, last_operation_at) on project to neap_proxy;
  grant select on branch to neap_proxy;
  grant select (branch_id, name, verifier) on role to neap_proxy;
  grant select (id, is_default) on account to neap_proxy;
  grant update (last_active) on endpoint to neap_proxy;
  grant update (last_seq, last_operation_at) on project to neap_proxy;
  grant insert on operation to neap_proxy;
  grant insert, delete on proxy to neap_proxy;
  grant insert, update on proxy_hold, endpoint_traffic, traffic_writer, refused_access to neap_proxy;

  -- Of all operations it asks for starts only.
  alter table operation enable row level security;
  create policy proxy_reads on operation for select to neap_proxy using (true);
  create policy proxy_starts on operation for insert to neap_proxy with check (action = 'start_compute');
end $$;

-- The generation of the key that an API key is hashed under: one that is not used stays under an earlier one.
alter table api_key add column generation text not null default '00000000';

-- What follows from its rows is not its own doing.
alter function operation_inserted() security definer set search_path = public, pg_temp;
alter function operation_event() security definer set search_path = public, pg_temp;
alter function operation_webhooks() security definer set search_path = public, pg_temp;
alter function operation_moves() security definer set search_path = public, pg_temp;
