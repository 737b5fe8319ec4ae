-- A store is compared with the repository after each start and each end of a compute, also if that falls into a comparison, whose result does
-- not count then.

create or replace function compute_to_back_up() returns trigger language plpgsql as $$
begin
  update store set backup_due_at = clock_timestamp() where id = new.store_id;
  return null;
end $$;
create trigger ended_compute_to_back_up after update of ended_at on compute for each row
  when (old.ended_at is null and new.ended_at is not null) execute function compute_to_back_up();

-- The stores of a host are counted, and those found that were measured since their space was.
create index store_measured on store (host_id, measured_at);
