-- The figures of computes for charts: a row for each endpoint and hour, whose arrays have an element for each minute in which its compute ran.
-- Thirty days are 720 rows, next to one another in the index; a row for each minute would be 43,200, scattered by the batches that write them.
-- No reference to the endpoint: the batch of all computes would wait for whoever locks one of them. Rows expire by their hour.
create table compute_history (
  endpoint_id   text not null,
  hour          timestamptz not null,
  minutes       smallint[] not null,
  cu            real[] not null,
  -- CPUs used, bytes that cannot be reclaimed, bytes of cached files; null elements where they are not known.
  cpu           real[] not null,
  memory        real[] not null,
  cache         real[] not null,
  -- Sessions at Postgres, and clients at the proxies.
  sessions      real[] not null,
  clients       real[] not null,
  -- Blocks found in shared memory, and read from files, since the element before.
  hits          real[] not null,
  reads         real[] not null,
  logical_size  real[] not null,
  primary key (endpoint_id, hour)
);
create index compute_history_expiry on compute_history (hour);
-- A full row has 2.3 kB: in place, uncompressed, and with room for the next minute on its page.
alter table compute_history
  alter column minutes set storage plain, alter column cu set storage plain, alter column cpu set storage plain,
  alter column memory set storage plain, alter column cache set storage plain, alter column sessions set storage plain,
  alter column clients set storage plain, alter column hits set storage plain, alter column reads set storage plain,
  alter column logical_size set storage plain;
alter table compute_history set (fillfactor = 60);

-- When the step of a time begins.
create function begin_of_step(at timestamptz, seconds int) returns timestamptz language sql immutable as $$
  select to_timestamp(floor(extract(epoch from at) / seconds) * seconds)
$$;

-- The clients of an endpoint at each proxy; rows leave with their proxy.
create table endpoint_clients (
  endpoint_id   text not null,
  proxy_number  int not null references proxy on delete cascade,
  clients       int not null check (clients > 0),
  primary key (endpoint_id, proxy_number)
);
create index endpoint_clients_proxy on endpoint_clients (proxy_number);

do $$ begin
  if not exists (select from pg_roles where rolname = 'neap_proxy') then return; end if;
  grant select, insert, update, delete on endpoint_clients to neap_proxy;
end $$;

-- The changes of size in a time.
create index scaling_time on scaling (endpoint_id, scaled_at);
