-- Up to where a compute had written its WAL when it was shut down cleanly.

alter table compute add column end_lsn pg_lsn;
