-- People sign in at the console; a member's role in an account says what his sessions may do there.
create table person (
  id          uuid primary key,
  name        text not null,
  email       text not null,
  created_at  timestamptz not null default clock_timestamp()
);
create unique index person_email on person (lower(email));

create table membership (
  account_id  uuid not null references account on delete cascade,
  person_id   uuid not null references person on delete cascade,
  role        text not null check (role in ('admin', 'editor', 'viewer')),
  joined_at   timestamptz not null default clock_timestamp(),
  primary key (account_id, person_id)
);
create index membership_person on membership (person_id);

-- Tokens of sessions and links have 256 random bits: a plain hash keeps them.
create table person_session (
  id              bigint generated always as identity primary key,
  person_id       uuid not null references person on delete cascade,
  hash            bytea not null unique,
  user_agent      text not null default '',
  created_at      timestamptz not null default clock_timestamp(),
  last_used_at    timestamptz not null default clock_timestamp(),
  last_used_from  text not null default '',
  expires_at      timestamptz not null
);
create index person_session_person on person_session (person_id);

create table sign_in_link (
  hash        bytea primary key,
  person_id   uuid not null references person on delete cascade,
  created_at  timestamptz not null default clock_timestamp(),
  expires_at  timestamptz not null
);

alter table audit add column person_id uuid;
alter table idempotency_key add column person_id uuid;

-- Cached sessions are dropped like cached keys.
create trigger person_session_ended after delete on person_session
  for each statement execute function api_key_changed();
create trigger membership_changed after update of role or delete on membership
  for each statement execute function api_key_changed();
