import { readFileSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { ADMIN, LOGIN_READER, ownSession } from '../../postgres/own_session.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import type { StoreSecrets } from '../../secrets.ts'
import { SERVER_PORT } from './server.ts'

/** In a home: the store by whose id the passwords of Neap's roles there are derived. Without the file: the one that all stores once shared. */
const noteOf = (home: string): string => join(home, 'password_of')

export const passwordHolder = (home: string): string | undefined => {
  try {
    return readFileSync(noteOf(home), 'utf8')
  } catch {
    return undefined
  }
}

export const notePasswordHolder = (home: string, store: string): Promise<void> => writeFile(noteOf(home), store)

/** Copies the note with the data: a clone has its parent's passwords until its first start. */
export async function inheritPassword(from: string, to: string): Promise<void> {
  const holder = passwordHolder(from)
  if (holder === undefined) rmSync(noteOf(to), { force: true })
  else await notePasswordHolder(to, holder)
}

/** The password of neap_admin in a home as its files are. */
export function adminPasswordIn(home: string, secrets: StoreSecrets): string {
  const holder = passwordHolder(home)
  return holder === undefined ? secrets.shared : secrets.admin(holder)
}

const WRONG_PASSWORD = '28P01'

/**
 * Gives Neap's own roles in a server that has just started passwords of its own, if they still have others: before clients are sent there.
 * Killed at any point it ends in the same state when it runs again.
 */
export async function ensureOwnPasswords(
  { home, socketDir }: { home: string; socketDir: string },
  store: string,
  secrets: StoreSecrets,
): Promise<void> {
  if (passwordHolder(home) === store) return
  const session = await connected(socketDir, adminPasswordIn(home, secrets)).catch((error: unknown) => {
    // It was changed, and this process ended before it could note that.
    if ((error as { code?: unknown }).code === WRONG_PASSWORD) return connected(socketDir, secrets.admin(store))
    throw error
  })
  try {
    await session.query(await ownRolesSql(store, secrets))
  } finally {
    await session.end()
  }
  await notePasswordHolder(home, store)
}

async function connected(host: string, password: string): Promise<pg.Client> {
  const client = ownSession({
    host,
    port: SERVER_PORT,
    user: ADMIN,
    password,
    name: 'neap: passwords',
    timeoutMs: 4_000,
  })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** One transaction, as a text of several statements is. transaction_timeout is there from Postgres 17 on and cannot be pinned by a session. */
async function ownRolesSql(store: string, secrets: StoreSecrets): Promise<string> {
  const admin = await scramVerifier(secrets.admin(store))
  const reader = await scramVerifier(secrets.loginReader(store))
  // Two workers may be at it for a moment.
  return `
    select pg_advisory_xact_lock(1);
    do $$ begin
      if not exists (select from pg_roles where rolname = '${LOGIN_READER}') then create role ${LOGIN_READER}; end if;
      if current_setting('server_version_num')::int >= 170000 then
        alter role ${ADMIN} set transaction_timeout = 0;
        alter role ${LOGIN_READER} set transaction_timeout = 0;
      end if;
    end $$;
    alter role ${LOGIN_READER} with login nosuperuser nocreatedb nocreaterole noinherit password '${reader}';
    grant connect on database neap to ${LOGIN_READER};
    grant select (rolname, rolpassword) on pg_authid to ${LOGIN_READER};
    alter role ${ADMIN} password '${admin}'`
}
