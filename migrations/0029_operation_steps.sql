-- Why an operation was asked for: request, connection, idle and so on.
alter table operation add column reason text generated always as (input ->> 'reason') stored;
-- What happened to its steps, oldest first: {step, at} when one was done, with an error when one failed. Some sixty bytes that are written
-- with the move itself; of more than forty the oldest twenty and the latest stay.
alter table operation add column steps jsonb not null default '[]';

create function with_step(steps jsonb, step text, error text) returns jsonb language sql volatile as $$
  select case when jsonb_array_length(steps) < 40 then steps else steps - 20 end
         || jsonb_strip_nulls(jsonb_build_object('step', step, 'at', clock_timestamp(), 'error', left(error, 300)))
$$;

-- The starts that clients waited for.
create index operation_wake on operation (endpoint_id, created_at)
  where action = 'start_compute' and reason = 'connection' and finished_at is not null and error is null;
