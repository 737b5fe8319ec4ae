-- A deleted project can be recovered until then, where the settings give it time.
alter table project add column recoverable_until timestamptz;
