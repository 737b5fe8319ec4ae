-- What the history of a branch and what a snapshot takes is counted apart from the data of branches.

-- Of the bytes that the history of a store takes, those that are in storage_size.
alter table store add column counted_history_bytes bigint not null default 0;
alter table storage_size add column history_bytes bigint not null default 0;
alter table storage_size add column is_snapshot boolean not null default false;

-- A hidden branch with the data of a snapshot, also after that is removed.
alter table branch add column is_snapshot boolean not null default false;
update branch set is_snapshot = true where id in (select branch_id from snapshot);
update storage_size set is_snapshot = true where branch_id in (select branch_id from snapshot);

create or replace function store_sized() returns trigger language plpgsql as $$
begin
  insert into storage_size (project_id, branch_id, is_root, is_snapshot, bytes, history_bytes)
  select b.project_id, b.id, b.parent_id is null, b.is_snapshot, case when tg_op = 'DELETE' then 0 else new.bytes end,
         case when tg_op = 'DELETE' then 0 else new.counted_history_bytes end
    from branch b where b.id = case when tg_op = 'DELETE' then old.branch_id else new.branch_id end
     and (tg_op = 'DELETE' or new.bytes is not null);
  return null;
end $$;
drop trigger store_sized on store;
create trigger store_sized after update of bytes, branch_id, counted_history_bytes on store for each row
  when ((old.bytes, old.branch_id, old.counted_history_bytes) is distinct from (new.bytes, new.branch_id, new.counted_history_bytes))
  execute function store_sized();
