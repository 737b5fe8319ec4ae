-- The request that asked for an operation, for the log of whoever works at it. Set by the transaction, so that no insert can forget it.
alter table operation add column request_id text default nullif(current_setting('neap.request_id', true), '');

-- Endpoints are counted by state at each scrape: from this alone, however wide their rows are.
create index endpoint_state on endpoint (disabled, current_state) where deleted_at is null;
