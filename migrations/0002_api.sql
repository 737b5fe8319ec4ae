-- Each account is its own organization, since public clients ask for one.
alter table account add column organization_id text unique;

-- Branches as clients know them: when they are to go, and what clients note on them.
alter table branch
  add column expires_at  timestamptz,
  add column annotation  jsonb not null default '{}';

-- The first request with a key and its reply, sealed, since it may hold a password. The row is inserted first, in the transaction
-- of the effect: a second request with that key waits for it there.
create table idempotency_key (
  account_id    uuid not null references account,
  method        text not null,
  path          text not null,
  key           text not null,
  request_hash  bytea not null,
  status        int,
  reply         bytea,
  created_at    timestamptz not null default clock_timestamp(),
  primary key (account_id, method, path, key)
);
create index idempotency_key_age on idempotency_key (created_at);

-- One row for each change of an operation. Who follows a project says which snapshot of the catalog it has seen, and reads the events
-- of transactions that were not in it: nothing is lost or repeated, whatever commits when, and no writer waits for another.
create table operation_event (
  project_id      text not null,
  xid             xid8 not null default pg_current_xact_id(),
  number          bigint generated always as identity,
  operation_id    uuid not null,
  status          text not null,
  failures_count  int not null,
  error           text,
  retry_at        timestamptz,
  started_at      timestamptz,
  updated_at      timestamptz not null,
  finished_at     timestamptz,
  primary key (project_id, xid, number)
);
create index operation_event_age on operation_event (updated_at);

create function operation_event() returns trigger language plpgsql as $$
begin
  insert into operation_event (project_id, operation_id, status, failures_count, error, retry_at, started_at, updated_at, finished_at)
  values (new.project_id, new.id, new.status, new.failures_count, new.error, new.retry_at, new.started_at, new.updated_at, new.finished_at);
  perform pg_notify('operation_event', new.project_id);
  return null;
end $$;
create trigger operation_event_inserted after insert on operation for each row execute function operation_event();
create trigger operation_event_changed after update of status, failures_count on operation for each row
  when (old.status is distinct from new.status or old.failures_count is distinct from new.failures_count)
  execute function operation_event();

-- A page of operations of one endpoint, branch, action or status costs the same at any depth.
create index operation_endpoint on operation (project_id, endpoint_id, created_at);
create index operation_branch on operation (project_id, branch_id, created_at);
create index operation_action on operation (project_id, action, created_at);
-- By columns that change only at the end: an index on the status would cost each move a new entry in every index.
create index operation_failed on operation (project_id, created_at) where finished_at is not null and error is not null;

-- Every api process keeps what it knows of a key only until this tells it that the key, or its account, has changed.
create function api_key_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_key', '');
  return null;
end $$;
create trigger api_key_changed after update of revoked_at, expires_at, scope, project_id or delete on api_key
  for each row execute function api_key_changed();
create trigger account_changed after update or delete on account
  for each row execute function api_key_changed();
create index audit_project on audit (account_id, project_id, id);
create index branch_expiry on branch (expires_at) where expires_at is not null and deleted_at is null;
