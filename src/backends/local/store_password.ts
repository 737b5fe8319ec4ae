import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../../durable_file.ts'
import { ADMIN, LOGIN_READER, ownSession, unprovenSession } from '../../postgres/own_session.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import type { StoreSecrets } from '../../secrets/stores.ts'
import { type Progress, UnknownKeyError } from '../backend.ts'
import { SERVER_PORT, type ServerPlan, startServer, stopServer } from './server.ts'

/** In a home: by which id and generation of keys the passwords of Neap's roles there are derived. Without the file: the one that all stores once shared. */
const noteOf = (home: string): string => join(home, 'password_of')

export const passwordNote = (home: string): string | undefined => {
  try {
    return readFileSync(noteOf(home), 'utf8')
  } catch {
    return undefined
  }
}

/** On disk when it resolves, since the key of the note before may be destroyed then, and whole at any moment. */
export const notePassword = (home: string, note: string): Promise<void> =>
  replaceFile(noteOf(home), 0o644, Buffer.from(note))

/** Copies the note with the data: a clone has its parent's passwords until its first start. */
export async function inheritPassword(from: string, to: string): Promise<void> {
  const note = passwordNote(from)
  if (note === undefined) rmSync(noteOf(to), { force: true })
  else await notePassword(to, note)
}

/**
 * Gives Neap's own roles in a server that has just started passwords of its own, if they still have others: before clients are sent there.
 * Killed at any point it ends in the same state when it runs again.
 */
export async function ensureOwnPasswords(
  { home, socketDir }: Pick<ServerPlan, 'home' | 'socketDir'>,
  store: string,
  secrets: StoreSecrets,
): Promise<void> {
  const note = passwordNote(home)
  if (note === secrets.note(store)) return
  // It may have been changed by a process that ended before it could note that.
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

/** Of a server that is started to be given a password, and for nothing else. */
const UNPROVEN_HBA = `local neap ${ADMIN} trust\n`
const QUIET = 'max_logical_replication_workers = 0\nautovacuum = off\n'

/**
 * Gives neap_admin a password that is known, where the key is no more under which it has its own: by a server that is started for this
 * alone, and stopped again, before anything of a tenant can run in it. Errors: UnknownKeyError where the key may still exist somewhere.
 */
export async function replaceUnknownPassword(plan: ServerPlan, secrets: StoreSecrets): Promise<Progress> {
  const { home, socketDir, fence } = plan
  const note = passwordNote(home)
  if (secrets.adminOf(note).length > 0) return 'done'
  if (!secrets.isGone(note))
    throw new UnknownKeyError(
      'The passwords of this data are under a key that is not in the key file: put back the key file that it was used with.',
    )
  // One that runs asks for the old password.
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

/** The id under which a password is derived until the start that follows: no store has it. */
const REPLACED = 'replaced'

/**
 * The roles that may use the server's files and programs. Until Postgres 16 who may create roles may grant all others but superusers
 * (its manual, CREATE ROLE): so these are some, with no login and no member.
 */
const OF_SERVER = `('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')`

/** One transaction, as a text of several statements is. transaction_timeout is there from Postgres 17 on and cannot be pinned by a session. */
async function ownRolesSql(store: string, secrets: StoreSecrets): Promise<string> {
  const admin = await scramVerifier(secrets.admin(store)[0])
  const reader = await scramVerifier(secrets.loginReader(store)[0])
  // Two workers may be at it for a moment.
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
