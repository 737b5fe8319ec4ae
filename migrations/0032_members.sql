-- Invitations to an organization: each link lets one person join, once.
create table invitation (
  id          uuid primary key,
  account_id  uuid not null references account on delete cascade,
  hash        bytea not null unique,
  role        text not null check (role in ('admin', 'editor', 'viewer')),
  email       text not null default '',
  invited_by  uuid references person on delete set null,
  created_at  timestamptz not null default clock_timestamp(),
  expires_at  timestamptz not null
);
create index invitation_account on invitation (account_id);

-- The person who created an organization; null: Neap itself.
alter table account add column created_by uuid;
create index account_creator on account (created_by) where created_by is not null;

-- The organizations of a person are cached with his sessions.
create trigger membership_added after insert on membership
  for each statement execute function api_key_changed();
