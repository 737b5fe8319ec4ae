-- Refused API keys and logins, added up by what was tried and from where: a flood of them raises counts, not the number of rows. What is
-- known of no account is the operator's. Empty: not known, or added up over many.
create table refused_access (
  account_id  uuid not null references account on delete cascade,
  kind        text not null check (kind in ('api_key', 'login')),
  subject     text not null,
  role        text not null,
  network     text not null,
  count       bigint not null,
  first_at    timestamptz not null,
  last_at     timestamptz not null,
  primary key (account_id, kind, subject, role, network)
);
