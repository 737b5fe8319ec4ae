-- Resources carry their account, so that no query can forget whose they are.
-- What the API calls gone keeps its row (deleted_at) only as long as something must still be cleared or read.

create table account (
  id          uuid primary key,
  name        text not null,
  email       text not null,
  plan        text not null check (plan in ('free', 'paid')),
  is_default  boolean not null default false,
  created_at  timestamptz not null default clock_timestamp()
);
create unique index account_default on account (is_default) where is_default;

create table api_key (
  id              bigint generated always as identity primary key,
  account_id      uuid not null references account,
  name            text not null,
  hash            bytea not null unique,
  scope           text not null check (scope in ('read', 'write', 'admin')),
  project_id      text,
  created_at      timestamptz not null default clock_timestamp(),
  expires_at      timestamptz,
  revoked_at      timestamptz,
  last_used_at    timestamptz,
  last_used_from  text not null default ''
);
create index api_key_account on api_key (account_id);

create table project (
  id                         text primary key,
  account_id                 uuid not null references account,
  name                       text not null,
  region_id                  text not null,
  pg_version                 int not null,
  settings                   jsonb not null default '{}',
  default_endpoint_settings  jsonb not null default '{}',
  history_retention_seconds  int not null default 86400,
  -- The project's one order of operations: the last number and time given out. Whoever inserts operations locks this row first.
  last_seq                   bigint not null default 0,
  last_operation_at          timestamptz not null default '2000-01-01',
  created_at                 timestamptz not null default clock_timestamp(),
  updated_at                 timestamptz not null default clock_timestamp(),
  deleted_at                 timestamptz
);
create index project_account on project (account_id, created_at) where deleted_at is null;

create table branch (
  id                text primary key,
  number            bigint generated always as identity unique,
  account_id        uuid not null references account,
  project_id        text not null references project,
  parent_id         text references branch,
  name              text not null,
  is_default        boolean not null default false,
  protected         boolean not null default false,
  creation_source   text not null default 'console',
  current_state     text not null default 'init' check (current_state in ('init', 'ready')),
  pending_state     text check (pending_state in ('init', 'ready')),
  state_changed_at  timestamptz not null default clock_timestamp(),
  -- Roles and databases as wanted (raised by each change) and as last made true in Postgres.
  config_version    bigint not null default 1,
  applied_version   bigint not null default 0,
  -- False once nothing of it is on disk any more.
  stored            boolean not null default true,
  created_at        timestamptz not null default clock_timestamp(),
  updated_at        timestamptz not null default clock_timestamp(),
  deleted_at        timestamptz
);
create unique index branch_name on branch (project_id, name) where deleted_at is null;
create unique index branch_default on branch (project_id) where is_default and deleted_at is null;
create index branch_parent on branch (parent_id);

create table role (
  branch_id   text not null references branch on delete cascade,
  name        text not null,
  account_id  uuid not null references account,
  password    bytea,
  verifier    text,
  created_at  timestamptz not null default clock_timestamp(),
  updated_at  timestamptz not null default clock_timestamp(),
  primary key (branch_id, name)
);

create table database (
  id          bigint generated always as identity primary key,
  branch_id   text not null references branch on delete cascade,
  name        text not null,
  account_id  uuid not null references account,
  owner_name  text not null,
  created_at  timestamptz not null default clock_timestamp(),
  updated_at  timestamptz not null default clock_timestamp(),
  unique (branch_id, name)
);

create table endpoint (
  id                        text primary key,
  account_id                uuid not null references account,
  project_id                text not null references project,
  branch_id                 text not null references branch,
  name                      text,
  min_cu                    double precision not null,
  max_cu                    double precision not null,
  suspend_timeout_seconds   bigint not null default 0,
  settings                  jsonb not null default '{}',
  pooler_enabled            boolean not null default false,
  disabled                  boolean not null default false,
  passwordless_access       boolean not null default false,
  creation_source           text not null default 'console',
  current_state             text not null default 'init' check (current_state in ('init', 'active', 'idle')),
  pending_state             text check (pending_state in ('active', 'idle')),
  -- Set while proxies must hold what they would forward: the suspend_compute that asked for it.
  holding_operation_id      uuid,
  compute_host              text,
  compute_port              int,
  compute_pid               int,
  started_at                timestamptz,
  suspended_at              timestamptz,
  last_active               timestamptz,
  -- The idle loop's memory: when to look next, what Postgres' own counters said the last time, since when nothing happened.
  idle_check_at             timestamptz,
  idle_counters             text,
  idle_since                timestamptz,
  created_at                timestamptz not null default clock_timestamp(),
  updated_at                timestamptz not null default clock_timestamp(),
  deleted_at                timestamptz
);
create unique index endpoint_branch on endpoint (branch_id) where deleted_at is null;
create index endpoint_project on endpoint (project_id);
create index endpoint_idle_check on endpoint (idle_check_at) where current_state = 'active' and deleted_at is null;

create table operation (
  id                uuid primary key,
  account_id        uuid not null references account,
  project_id        text not null references project,
  branch_id         text,
  endpoint_id       text,
  seq               bigint not null,
  action            text not null,
  status            text not null default 'scheduling' check (status in ('scheduling', 'running', 'finished', 'failed')),
  input             jsonb not null default '{}',
  -- What it takes alone and what it takes together with others; an earlier unfinished one that overlaps goes first.
  excludes          text[] not null,
  shares            text[] not null,
  passes_shared     boolean not null default false,
  depends_on        uuid[] not null default '{}',
  step              text not null,
  run_at            timestamptz not null default clock_timestamp(),
  deadline_seconds  int not null,
  deadline_at       timestamptz,
  attempts          int not null default 0,
  generation        int not null default 0,
  failures_count    int not null default 0,
  retry_at          timestamptz,
  error             text,
  created_at        timestamptz not null,
  updated_at        timestamptz not null default clock_timestamp(),
  started_at        timestamptz,
  finished_at       timestamptz,
  unique (project_id, seq),
  unique (project_id, created_at),
  check ((finished_at is null) = (status in ('scheduling', 'running')))
);
create index operation_due on operation (run_at) where finished_at is null;
create index operation_unfinished on operation (project_id, seq) where finished_at is null;

-- A proxy process that lives holds a session advisory lock on its number; what it holds back for an operation it says here.
create table proxy (
  number      int generated always as identity primary key,
  started_at  timestamptz not null default clock_timestamp()
);

create table proxy_hold (
  operation_id  uuid not null references operation on delete cascade,
  proxy_number  int not null references proxy on delete cascade,
  woken         boolean not null default false,
  primary key (operation_id, proxy_number)
);

create table audit (
  id           bigint generated always as identity primary key,
  account_id   uuid references account,
  api_key_id   bigint,
  request_id   uuid not null,
  action       text not null,
  project_id   text,
  subject      text,
  status       int not null,
  address      text not null default '',
  created_at   timestamptz not null default clock_timestamp()
);
create index audit_account on audit (account_id, id);

create table setting (
  name   text primary key,
  value  jsonb not null
);

-- Whoever waits for an endpoint or an operation is told by the row itself, so that no writer can forget to.
create function endpoint_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('endpoint', new.id);
  return null;
end $$;
create trigger endpoint_changed after insert or update of current_state, pending_state, holding_operation_id, compute_host,
  compute_port, disabled, pooler_enabled, branch_id, suspend_timeout_seconds, deleted_at on endpoint
  for each row execute function endpoint_changed();

create function operation_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('operation', new.id || ' ' || new.status);
  return null;
end $$;
create trigger operation_inserted after insert on operation for each row execute function operation_changed();
create trigger operation_changed after update of status on operation for each row
  when (old.status is distinct from new.status and new.finished_at is not null) execute function operation_changed();
create function proxy_hold_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('proxy_hold', new.operation_id::text);
  return null;
end $$;
create trigger proxy_hold_changed after insert or update on proxy_hold for each row execute function proxy_hold_changed();
