-- Who is told of changes over HTTP, of which, and by what its signatures are known (sealed; after a rotation the one before still
-- counts for a while).
create table webhook (
  id                     uuid primary key,
  account_id             uuid not null references account,
  project_id             text,
  url                    text not null,
  events                 text[] not null,
  enabled                boolean not null default true,
  disabled_reason        text,
  secret                 bytea not null,
  previous_secret        bytea,
  previous_secret_until  timestamptz,
  -- When a delivery was first given up, if none has succeeded since.
  failing_since          timestamptz,
  created_at             timestamptz not null default clock_timestamp(),
  updated_at             timestamptz not null default clock_timestamp()
);
create index webhook_account on webhook (account_id, created_at);
create index webhook_enabled on webhook (account_id) where enabled;

-- What is to be delivered, and what came of it. No foreign key: it would lock the webhook's row in every transaction that changes
-- something, and fail such a transaction when the webhook is deleted at that moment.
create table webhook_delivery (
  id               uuid primary key default gen_random_uuid(),
  number           bigint generated always as identity,
  webhook_id       uuid not null,
  event            text not null,
  -- The row that the event is about, as the change left it; its table is the first word of the event.
  subject          jsonb not null,
  status           text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts         int not null default 0,
  -- How many of the attempts do not count, since somebody asked for another delivery or a worker stopped in the middle.
  attempts_before  int not null default 0,
  due_at           timestamptz default clock_timestamp(),
  occurred_at      timestamptz not null default clock_timestamp(),
  attempted_at     timestamptz,
  response_status  int,
  response_body    text,
  error            text,
  check ((due_at is null) = (status <> 'pending'))
);
create unique index webhook_delivery_page on webhook_delivery (webhook_id, number);
create index webhook_delivery_waiting on webhook_delivery (webhook_id, due_at) where due_at is not null;
create index webhook_delivery_due on webhook_delivery (due_at) where due_at is not null;
create index webhook_delivery_age on webhook_delivery (occurred_at);
alter table webhook_delivery set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Writes down what is to be delivered. Postgres commits one after the other what notifies: so it tells only where there is something, and
-- leaves the telling to who has said, as for ends of operations, that it tells afterwards.
create function tell_webhooks(account uuid, project text, happened text[], what jsonb) returns void language plpgsql as $$
begin
  insert into webhook_delivery (webhook_id, event, subject)
  select w.id, h.event, what from webhook w, unnest(happened) h (event)
   where w.account_id = account and w.enabled and h.event = any (w.events) and (w.project_id is null or w.project_id = project);
  if found and current_setting('neap.tells_later', true) is distinct from 'on' then
    perform pg_notify('webhook_delivery', '');
  end if;
end $$;

-- Each change costs one look into an index where no webhook wants it.
create function operation_webhooks() returns trigger language plpgsql as $$
begin
  if exists (select from webhook where account_id = new.account_id and enabled and 'operation.' || new.status = any (events)) then
    perform tell_webhooks(new.account_id, new.project_id, array['operation.' || new.status], to_jsonb(new) - 'input');
  end if;
  return null;
end $$;
create trigger operation_webhooks_inserted after insert on operation for each row execute function operation_webhooks();
create trigger operation_webhooks_changed after update of status on operation for each row
  when (old.status is distinct from new.status) execute function operation_webhooks();

create function endpoint_webhooks() returns trigger language plpgsql as $$
declare
  happened text[] := '{}';
begin
  if tg_op = 'INSERT' then
    happened := '{endpoint.created}';
  elsif new.deleted_at is not null then
    if old.deleted_at is null then happened := '{endpoint.deleted}'; end if;
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
create trigger endpoint_webhooks after insert or update of branch_id, name, min_cu, max_cu, suspend_timeout_seconds, settings, pooler_enabled,
  disabled, passwordless_access, current_state, deleted_at on endpoint for each row execute function endpoint_webhooks();

-- The hidden copies by which branches are restored count as deleted from the beginning: nothing is told of them.
create function branch_webhooks() returns trigger language plpgsql as $$
declare
  happened text[] := '{}';
begin
  if new.deleted_at is not null then
    if tg_op = 'UPDATE' and old.deleted_at is null then happened := '{branch.deleted}'; end if;
  elsif tg_op = 'INSERT' then
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
create trigger branch_webhooks after insert or update of name, parent_id, is_default, protected, expires_at, last_reset_at, current_state,
  deleted_at on branch for each row execute function branch_webhooks();

-- As before; and of what is to be delivered because of the end.
create or replace function tell_ended(ended operation) returns void language plpgsql as $$
begin
  perform pg_notify('operation', ended.id || ' ' || ended.status);
  perform pg_notify('operation_event', ended.project_id);
  if exists (select from operation_hold
              where project_id = ended.project_id and resource = any (ended.excludes || ended.shares) and exclusive and seq > ended.seq)
     or exists (select from operation_hold
                 where project_id = ended.project_id and resource = any (ended.excludes) and not exclusive and seq > ended.seq) then
    perform pg_notify('operation_due', '');
  end if;
  if exists (select from webhook where account_id = ended.account_id and enabled and 'operation.' || ended.status = any (events)) then
    perform pg_notify('webhook_delivery', '');
  end if;
end $$;
