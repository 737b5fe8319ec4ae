-- Passkeys (WebAuthn Level 3): public keys whose private halves never leave the authenticators of persons.
create table passkey (
  id            uuid primary key,
  person_id     uuid not null references person on delete cascade,
  -- The host name that the key is for: browsers offer it nowhere else.
  rp_id         text not null,
  credential_id text not null unique,
  public_key    bytea not null,
  counter       bigint not null,
  transports    text[] not null default '{}',
  name          text not null,
  created_at    timestamptz not null default clock_timestamp(),
  last_used_at  timestamptz
);
create index passkey_person on passkey (person_id);

-- Challenges that wait for their answer, each for one. Without a person: of a sign-in.
create table passkey_challenge (
  challenge   text primary key,
  person_id   uuid references person on delete cascade,
  rp_id       text not null,
  network     text not null,
  created_at  timestamptz not null default clock_timestamp(),
  expires_at  timestamptz not null
);
create index passkey_challenge_network on passkey_challenge (network, created_at);
create index passkey_challenge_expiry on passkey_challenge (expires_at);
