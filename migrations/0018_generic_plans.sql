-- Arrays whose length the planner does not know make it plan these statements anew at each call, which took longer than they do. A plan
-- that is kept must be right for a table that grows: by the index, however small it was when the plan was made.
alter function operation_ended() set plan_cache_mode = force_generic_plan;
alter function operation_ended() set enable_seqscan = off;
alter function operation_ended() set enable_bitmapscan = off;
alter function tell_ended(operation) set plan_cache_mode = force_generic_plan;
alter function tell_ended(operation) set enable_seqscan = off;
alter function tell_ended(operation) set enable_bitmapscan = off;
alter function due_operations(text[], uuid[], int) set plan_cache_mode = force_generic_plan;
