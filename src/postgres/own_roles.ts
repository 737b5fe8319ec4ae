import { ADMIN, LOGIN_READER } from './own_session.ts'

/**
 * The roles that may use the server's files and programs. Before Postgres 16 a role that may create roles may grant all
 * roles but superusers (its manual, CREATE ROLE). So these become superusers, with no login and no member.
 */
const OF_SERVER = `('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')`

/**
 * Gives Neap's own roles these verifiers, in one transaction. transaction_timeout exists from Postgres 17 on, and a
 * session cannot pin it.
 */
export function ownRolesSql({ admin, reader }: { readonly admin: string; readonly reader: string }): string {
  // Two workers may run this at once.
  return `
    select pg_advisory_xact_lock(1);
    do $$ begin
      if not exists (select from pg_roles where rolname = '${LOGIN_READER}') then create role ${LOGIN_READER}; end if;
      if current_setting('server_version_num')::int >= 170000 then
        alter role ${ADMIN} set transaction_timeout = 0;
        alter role ${LOGIN_READER} set transaction_timeout = 0;
      end if;
      if current_setting('server_version_num')::int < 160000 then
        update pg_authid set rolsuper = true where rolname in ${OF_SERVER} and not rolsuper;
      end if;
    end $$;
    alter role ${LOGIN_READER} with login nosuperuser nocreatedb nocreaterole noinherit password '${reader}';
    grant connect on database neap to ${LOGIN_READER};
    grant select (rolname, rolpassword) on pg_authid to ${LOGIN_READER};
    alter role ${ADMIN} password '${admin}'`
}
