-- Logins that wait for the approval of a person, since their clients gave no password. Proxies have no right on the table: they ask and learn
-- through the two functions below, each about a login whose secret it has made itself.
create table passwordless_login (
  id                uuid primary key,
  account_id        uuid not null references account on delete cascade,
  project_id        text not null,
  branch_id         text not null,
  endpoint_id       text not null,
  role_name         text not null,
  database_name     text not null,
  application_name  text not null,
  -- As the proxy sees it.
  client_address    text not null,
  client_network    text not null,
  -- Keyed hash of the code that the client shows, and hash of the secret by which the proxy learns the answer.
  code_hash         bytea not null unique,
  secret_hash       bytea not null,
  -- X25519 (RFC 7748), made by the proxy for this login alone.
  public_key        bytea not null check (length(public_key) = 32),
  status            text not null default 'pending'
                    check (status in ('pending', 'approved', 'refused', 'withdrawn', 'taken')),
  -- The keys to log in with, sealed to public_key; only until the proxy takes them.
  sealed_keys       bytea check (sealed_keys is null or status = 'approved'),
  created_at        timestamptz not null default clock_timestamp(),
  expires_at        timestamptz not null default clock_timestamp() + interval '2 minutes'
);
create index passwordless_login_endpoint on passwordless_login (endpoint_id, created_at);
create index passwordless_login_age on passwordless_login (created_at);

-- Writes down a login that waits, and its audit row. Returns pending; unavailable where the endpoint has no passwordless access; too_many where
-- too many of the last ten minutes were not approved, at the endpoint or from the network.
create function ask_passwordless_login(
  login uuid, endpoint text, role text, database text, application text, address text, network text,
  code bytea, secret bytea, key bytea
) returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
  place record;
begin
  select e.id, e.account_id, e.project_id, e.branch_id into place
    from endpoint e join project p on p.id = e.project_id
   where e.id = endpoint and e.deleted_at is null and p.deleted_at is null and e.passwordless_access and not e.disabled;
  if not found then return 'unavailable'; end if;
  if (select count(*) >= 30 or count(*) filter (where l.client_network = network) >= 10
        from passwordless_login l
       where l.endpoint_id = place.id and l.status not in ('approved', 'taken')
         and l.created_at > clock_timestamp() - interval '10 minutes') then
    return 'too_many';
  end if;
  insert into passwordless_login (id, account_id, project_id, branch_id, endpoint_id, role_name, database_name, application_name,
                                  client_address, client_network, code_hash, secret_hash, public_key)
  values (login, place.account_id, place.project_id, place.branch_id, place.id, left(role, 63), left(database, 63),
          left(application, 64), left(address, 64), left(network, 64), code, sha256(secret), key);
  insert into audit (account_id, request_id, action, project_id, subject, status, address)
  values (place.account_id, login, 'passwordless_login.asked', place.project_id,
          format('/endpoints/%s/roles/%s', place.id, left(role, 63)), 202, left(address, 64));
  return 'pending';
end $$;

-- The answer to a login that the caller has the secret of. Approved: hands the keys over and deletes them, so that they are given once.
-- gives_up: a login that still waits ends.
create function take_passwordless_login(login uuid, secret bytea, gives_up boolean, out answer text, out keys bytea)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  select l.status, l.sealed_keys into answer, keys from passwordless_login l
   where l.id = login and l.secret_hash = sha256(secret) for update;
  if answer = 'approved' then
    update passwordless_login set status = 'taken', sealed_keys = null where id = login;
  elsif answer = 'pending' and gives_up then
    update passwordless_login set status = 'withdrawn' where id = login;
  end if;
end $$;

revoke execute on function ask_passwordless_login, take_passwordless_login from public;
do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  grant execute on function ask_passwordless_login, take_passwordless_login to neap_proxy;
end $$;
