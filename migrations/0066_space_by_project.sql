-- The space of stores is measured by project, since only stores of one project share blocks: those projects whose stores have changed since their
-- last pass, and no others. `real_bytes` are the blocks of a project's stores on the host that no store of another project has.
alter table project_space add column apparent_bytes bigint not null default 0;
alter table project_space add column real_bytes bigint not null default 0;
alter table project_space add column changed_at timestamptz not null default clock_timestamp();
alter table project_space add column measured_at timestamptz not null default '-infinity';
create index project_space_due on project_space (host_id, measured_at) where changed_at > measured_at;

-- All are measured anew.
alter table host add column template_bytes bigint not null default 0;
update host set apparent_bytes = 0, real_bytes = 0;
alter table host alter column apparent_bytes set default 0;
alter table host alter column apparent_bytes set not null;
alter table host alter column real_bytes set default 0;
alter table host alter column real_bytes set not null;
update project_space p set measured_at = coalesce(h.space_measured_at, '-infinity') from host h where h.id = p.host_id;
insert into project_space (project_id, host_id, shared_bytes)
select distinct b.project_id, s.host_id, 0 from store s join branch b on b.id = s.branch_id
on conflict (project_id, host_id) do nothing;

-- The sums of a host, as store_bytes.
create function count_space() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    update host set apparent_bytes = apparent_bytes - old.apparent_bytes, real_bytes = real_bytes - old.real_bytes
     where id = old.host_id;
  else
    update host set apparent_bytes = apparent_bytes + new.apparent_bytes - old.apparent_bytes,
                    real_bytes = real_bytes + new.real_bytes - old.real_bytes
     where id = new.host_id;
  end if;
  return null;
end $$;

create trigger space_measured after update of apparent_bytes, real_bytes on project_space for each row
  when (old.apparent_bytes is distinct from new.apparent_bytes or old.real_bytes is distinct from new.real_bytes)
  execute function count_space();
create trigger space_removed after delete on project_space for each row execute function count_space();
