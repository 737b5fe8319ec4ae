-- Where a branch's data lies is its store. Each branch begins with one that is named as it is and has its number; a restore
-- exchanges those of two branches. Within one statement, hence deferrable.
alter table branch
  add column store_id       text,
  add column store_number   bigint,
  -- The branch whose data this one's is to become, until that has happened or will not happen any more.
  add column restores       text references branch,
  add column last_reset_at  timestamptz;
update branch set store_id = id, store_number = number;
alter table branch
  alter column store_id set not null,
  alter column store_number set not null,
  add constraint branch_store_id unique (store_id) deferrable initially immediate,
  add constraint branch_store_number unique (store_number) deferrable initially immediate;
create index branch_restores on branch (restores) where restores is not null;

create function branch_begins_with_its_store() returns trigger language plpgsql as $$
begin
  new.store_id := new.id;
  new.store_number := new.number;
  return new;
end $$;
create trigger branch_begins_with_its_store before insert on branch
  for each row execute function branch_begins_with_its_store();
