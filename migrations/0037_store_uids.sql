-- The uids of stores on hosts whose computes run as users of their own. A row remains for as long as the store's directory is there,
-- also for one that the catalog does not know.
create table store_uid (
  host_id   text not null references host on update cascade on delete cascade,
  uid       bigint not null,
  store_id  text not null unique,
  primary key (host_id, uid)
);
