-- Of an anonymized branch: how far its masking is. Clients may enter once it is anonymized, and no copy is made of its
-- data before.
alter table branch add column masking_state text
  check (masking_state in ('initialized', 'anonymizing', 'anonymized', 'error'));

-- What is to be masked in an anonymized branch, and the last run that did so.
create table masking (
  branch_id      text primary key references branch on delete cascade,
  rules          jsonb not null,
  -- What the run does, or why it failed.
  message        text,
  created_at     timestamptz not null default clock_timestamp(),
  updated_at     timestamptz not null default clock_timestamp(),
  started_at     timestamptz,
  completed_at   timestamptz,
  failed_at      timestamptz,
  masked_columns int
);
