-- An endpoint is on its way to where the last of its unfinished operations will leave it. The operations themselves say so: nobody who
-- inserts, ends or cancels one can forget to, or overwrite what stands behind it.
create function settle_pending(id text) returns void language plpgsql as $$
declare
  now_at text;
  moves_to text;
begin
  -- Locked before the operations are read: those of whoever had the row until now count.
  select current_state into now_at from endpoint e where e.id = settle_pending.id for no key update;
  select case o.action when 'start_compute' then 'active' when 'suspend_compute' then 'idle'
  -- A check starts what sleeps and stops it again: who deletes the endpoint meanwhile must know that something runs.
                       else case when now_at <> 'active' then 'active' end end
    into moves_to
    from endpoint e join operation o on o.project_id = e.project_id and o.endpoint_id = e.id
   where e.id = settle_pending.id and o.finished_at is null
     and o.action in ('start_compute', 'suspend_compute', 'check_availability')
   order by o.seq desc limit 1;
  update endpoint e set pending_state = moves_to where e.id = settle_pending.id and pending_state is distinct from moves_to;
end $$;

create function operation_moves() returns trigger language plpgsql as $$
begin
  perform settle_pending(new.endpoint_id);
  return null;
end $$;
create trigger operation_moves after insert or update of finished_at on operation for each row
  when (new.endpoint_id is not null and new.action in ('start_compute', 'suspend_compute', 'check_availability'))
  execute function operation_moves();

select settle_pending(id) from endpoint where pending_state is not null;
