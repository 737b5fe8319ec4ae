-- What passed between clients and each endpoint in a calendar month (UTC), by the branch it was on. Apart from `endpoint`, since proxies
-- add to it all the time and wait for nobody who holds that row; what is deleted goes on to count for its project.
create table endpoint_traffic (
  project_id          text not null references project on delete cascade,
  month               date not null,
  branch_id           text not null,
  endpoint_id         text not null,
  bytes_to_clients    bigint not null,
  bytes_from_clients  bigint not null,
  connections         bigint not null,
  primary key (project_id, month, branch_id, endpoint_id)
);
create index endpoint_traffic_month on endpoint_traffic (month);

-- The last batch that each proxy process has added: one that is sent again, since nobody heard whether it came, is not added again.
create table traffic_writer (
  id          uuid primary key,
  batch       bigint not null,
  written_at  timestamptz not null default clock_timestamp()
);

create function this_month() returns date language sql stable as $$
  select date_trunc('month', now() at time zone 'UTC')::date
$$;
