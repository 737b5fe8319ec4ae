-- With what a branch began; null for the data of its parent or its template.
alter table branch add column init_source text check (init_source in ('schema-only'));
