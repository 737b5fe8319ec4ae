-- The bytes of the files of a host's branches, as they were last measured. Triggers keep it: a sum over all stores would cost the more, the more
-- there are.
alter table host add column store_bytes bigint not null default 0;

create function count_store_bytes() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    update host set store_bytes = store_bytes - old.bytes where id = old.host_id;
  else
    update host set store_bytes = store_bytes + coalesce(new.bytes, 0) - coalesce(old.bytes, 0) where id = new.host_id;
  end if;
  return null;
end $$;

create trigger store_bytes_measured after update of bytes on store for each row
  when (old.bytes is distinct from new.bytes) execute function count_store_bytes();
create trigger store_bytes_removed after delete on store for each row
  when (old.bytes is not null) execute function count_store_bytes();

update host h set store_bytes = coalesce((select sum(bytes) from store s where s.host_id = h.id), 0);
