-- A deleted branch can be recovered until its data is removed, which happens some time after this moment; null: its
-- data is removed at once, or it is not deleted.
alter table branch add column recoverable_until timestamptz;
alter table branch add column deletion_method text check (deletion_method in ('user', 'ttl'));
alter table branch add check (recoverable_until is null or deleted_at is not null and deletion_method is not null);

-- Of a deleted endpoint: it was deleted with its branch, which can be recovered with it.
alter table endpoint add column recoverable boolean not null default false;

-- The data to be removed, with those that are due first.
drop index branch_leftover;
create index branch_leftover on branch (coalesce(recoverable_until, '-infinity'))
 where deleted_at is not null and store_id is not null;
create index branch_recoverable on branch (project_id, recoverable_until) where recoverable_until is not null;

-- An endpoint or branch that is recovered is told of as created.
create or replace function endpoint_webhooks() returns trigger language plpgsql as $$
declare
  happened text[] := '{}';
begin
  if tg_op = 'INSERT' then
    happened := '{endpoint.created}';
  elsif new.deleted_at is not null then
    if old.deleted_at is null then happened := '{endpoint.deleted}'; end if;
  elsif old.deleted_at is not null then
    happened := '{endpoint.created}';
  else
    if (old.branch_id, old.name, old.min_cu, old.max_cu, old.suspend_timeout_seconds, old.settings, old.pooler_enabled, old.disabled,
        old.passwordless_access)
       is distinct from (new.branch_id, new.name, new.min_cu, new.max_cu, new.suspend_timeout_seconds, new.settings, new.pooler_enabled,
        new.disabled, new.passwordless_access) then
      happened := '{endpoint.updated}';
    end if;
    if old.current_state <> new.current_state and new.current_state <> 'init' then
      happened := happened || ('endpoint.' || new.current_state);
    end if;
  end if;
  if happened <> '{}' and exists (select from webhook where account_id = new.account_id and enabled and events && happened) then
    perform tell_webhooks(new.account_id, new.project_id, happened, to_jsonb(new));
  end if;
  return null;
end $$;

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
    if old.current_state <> 'ready' and new.current_state = 'ready' then
      happened := happened || 'branch.ready'::text;
    end if;
  end if;
  if happened <> '{}' and exists (select from webhook where account_id = new.account_id and enabled and events && happened) then
    perform tell_webhooks(new.account_id, new.project_id, happened, to_jsonb(new));
  end if;
  return null;
end $$;
