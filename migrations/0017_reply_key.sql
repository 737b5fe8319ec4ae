-- The API key whose request a kept reply answered: another one that repeats the request leaves an audit row, since the reply may hold a password.
alter table idempotency_key add column api_key_id bigint;
