-- Passwords of persons, as Argon2id hashes in PHC string format: a table of their own, so that no row of a person holds one.
create table person_password (
  person_id   uuid primary key references person on delete cascade,
  hash        text not null,
  changed_at  timestamptz not null default clock_timestamp()
);

-- How a session was signed in. Sessions from before were signed in by links.
alter table person_session add column method text not null default 'link';

-- The name and email of a person are cached with his sessions.
create trigger person_changed after update of name, email or delete on person
  for each statement execute function api_key_changed();

-- Refused sign-ins at the console are added up like refused keys and logins; the subject is the person.
alter table refused_access drop constraint refused_access_kind_check;
alter table refused_access add constraint refused_access_kind_check check (kind in ('api_key', 'login', 'sign_in'));
