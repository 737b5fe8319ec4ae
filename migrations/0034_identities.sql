-- Persons at an OpenID Connect provider: known by issuer and subject, which never change, and never by an email.
create table person_identity (
  id          uuid primary key,
  issuer      text not null,
  subject     text not null,
  person_id   uuid not null references person on delete cascade,
  created_at  timestamptz not null default clock_timestamp(),
  unique (issuer, subject)
);
create index person_identity_person on person_identity (person_id);
