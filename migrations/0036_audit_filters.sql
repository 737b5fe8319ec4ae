-- The audit list of one person, key or action, and from a moment on, is read in its order: what others did is not passed over row by row.
create index audit_person on audit (account_id, person_id, id) where person_id is not null;
create index audit_key on audit (account_id, api_key_id, id) where api_key_id is not null;
create index audit_action on audit (account_id, action, id);
create index audit_time on audit (account_id, created_at);
