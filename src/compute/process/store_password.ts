import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../../durable_file.ts'
import { ADMIN, LOGIN_READER, ownSession, unprovenSession } from '../../postgres/own_session.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import type { StoreSecrets } from '../../secrets/stores.ts'
import { type Progress, UnknownKeyError } from '../compute.ts'
import { SERVER_PORT, type ServerPlan, startServer, stopServer } from './server.ts'

/**
 * The note in a home: the id and generation of keys that the passwords of Neap's roles there derive from. Absent: the
 * password that all stores once shared.
 */
const noteOf = (home: string): string => join(home, 'password_of')

export const passwordNote = (home: string): string | undefined => {
  try {
    return readFileSync(noteOf(home), 'utf8')
  } catch {
    return undefined
  }
}

/** Durable when it resolves, since the key of the previous note may be destroyed then; replaced atomically. */
export const notePassword = (home: string, note: string): Promise<void> =>
  replaceFile(noteOf(home), 0o644, Buffer.from(note))

/** Copies the note with the data: a clone has its parent's passwords until its first start. */
export async function inheritPassword(from: string, to: string): Promise<void> {
  const note = passwordNote(from)
  if (note === undefined) rmSync(noteOf(to), { force: true })
  else await notePassword(to, note)
}

/**
 * Sets the passwords of Neap's own roles in a server that has just started, if they are not this store's own yet:
 * before clients are sent there. A call that was killed at any point can be repeated.
 */
export async function ensureOwnPasswords(
  { home, socketDir }: Pick<ServerPlan, 'home' | 'socketDir'>,
  store: string,
  secrets: StoreSecrets,
): Promise<void> {
  const note = passwordNote(home)
  if (note === secrets.note(store)) return
  // A process may have changed the password and ended before it wrote the note.
  const passwords = [...secrets.adminOf(note), ...secrets.admin(store)]
  const session = await ownSession({ ...LOGIN, host: socketDir, passwords })
  try {
    await session.query(await ownRolesSql(store, secrets))
  } finally {
    await session.end()
  }
  await notePassword(home, secrets.note(store))
}

const LOGIN = { port: SERVER_PORT, user: ADMIN, name: 'neap: passwords', timeoutMs: 4_000 } as const

/** The access rule of a server that is started only to be given a password. */
const UNPROVEN_HBA = `local neap ${ADMIN} trust\n`
const QUIET = 'max_logical_replication_workers = 0\nautovacuum = off\n'

/**
 * Gives neap_admin a known password when the key of its own is gone: starts a server only for this and stops it again,
 * before any code of a tenant can run in it. Errors: UnknownKeyError when the key may still exist somewhere.
 */
export async function replaceUnknownPassword(plan: ServerPlan, secrets: StoreSecrets): Promise<Progress> {
  const { home, socketDir, fence } = plan
  const note = passwordNote(home)
  if (secrets.adminOf(note).length > 0) return 'done'
  if (!secrets.isGone(note))
    throw new UnknownKeyError(
      'The passwords of this data are under a key that is not in the key file: put back the key file that it was used with.',
    )
  // A running server asks for the old password.
  if ((await stopServer(home, fence)) === 'pending') return 'pending'
  const alone = { ...plan, egress: '', hba: UNPROVEN_HBA, config: plan.config + QUIET }
  if ((await startServer(alone)) === 'pending') return 'pending'
  const session = await unprovenSession({ ...LOGIN, host: socketDir })
  try {
    const [password] = secrets.admin(REPLACED)
    await session.query(`alter role ${ADMIN} password '${await scramVerifier(password)}'`)
  } finally {
    await session.end()
  }
  if ((await stopServer(home, fence)) === 'pending') return 'pending'
  await notePassword(home, secrets.note(REPLACED))
  return 'done'
}

/** The id that a password derives from until the next start: no store has it. */
const REPLACED = 'replaced'

/**
 * The roles that may use the server's files and programs. Before Postgres 16 a role that may create roles may grant all
 * roles but superusers (its manual, CREATE ROLE). So these become superusers, with no login and no member.
 */
const OF_SERVER = `('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')`

/** One transaction. transaction_timeout exists from Postgres 17 on, and a session cannot pin it. */
async function ownRolesSql(store: string, secrets: StoreSecrets): Promise<string> {
  const admin = await scramVerifier(secrets.admin(store)[0])
  const reader = await scramVerifier(secrets.loginReader(store)[0])
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
