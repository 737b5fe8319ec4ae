-- The data of a branch that was unused for long are one compressed file until it is used again.
alter table branch
  drop constraint branch_current_state_check,
  drop constraint branch_pending_state_check,
  add constraint branch_current_state_check check (current_state in ('init', 'ready', 'archived')),
  add constraint branch_pending_state_check check (pending_state in ('init', 'ready', 'archived'));

-- When it is looked at next whether the data of a store are to be archived.
alter table store add column archive_at timestamptz not null default clock_timestamp();
create index store_archive on store (host_id, archive_at) where state = 'ready';
create index store_made_of on store (parent_id);

-- A start needs the data: who asks for one also asks for these.
do $$ begin
  if exists (select from pg_policies where policyname = 'proxy_starts') then
    alter policy proxy_starts on operation with check (action in ('start_compute', 'timeline_unarchive'));
  end if;
end $$;

-- A branch that is brought back is not a new one.
create or replace function branch_webhooks() returns trigger language plpgsql as $$
declare
  happened text[] := '{}';
begin
  if new.deleted_at is not null then
    if tg_op = 'UPDATE' and old.deleted_at is null then happened := '{branch.deleted}'; end if;
  elsif tg_op = 'INSERT' or old.deleted_at is not null then
    happened := '{branch.created}';
  else
    if (old.name, old.parent_id, old.is_default, old.protected, old.expires_at, old.last_reset_at)
       is distinct from (new.name, new.parent_id, new.is_default, new.protected, new.expires_at, new.last_reset_at) then
      happened := '{branch.updated}';
    end if;
    if old.current_state = 'init' and new.current_state = 'ready' then
      happened := happened || 'branch.ready'::text;
    end if;
  end if;
  if happened <> '{}' and exists (select from webhook where account_id = new.account_id and enabled and events && happened) then
    perform tell_webhooks(new.account_id, new.project_id, happened, to_jsonb(new));
  end if;
  return null;
end $$;
