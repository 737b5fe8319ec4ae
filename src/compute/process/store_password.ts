import { ADMIN, ownSession, unprovenSession, endSession } from '../../postgres/own_session.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import type { StoreSecrets } from '../../secrets/stores.ts'
import { UnknownKeyError } from '../../host/failures.ts'
import type { Progress } from '../../host/fence.ts'
import { SERVER_PORT } from '../../host/layout.ts'
import { setOwnRoles } from '../../postgres/own_roles.ts'
import { KEEP_WAL_SQL } from '../../postgres/wal_slot.ts'
import { notePassword, passwordNote } from '../../storage/password_note.ts'
import { type ServerPlan, startServer } from './server.ts'
import { stopServer } from './stop_server.ts'

/**
 * Sets the passwords of Neap's own roles in a server that has just started, if they are not this store's own yet:
 * before clients are sent there. A call that was killed at any point can be repeated.
 * @param options.keepsWal whether its WAL is kept from its first start on
 */
export async function ensureOwnPasswords(
  { home, socketDir }: Pick<ServerPlan, 'home' | 'socketDir'>,
  store: string,
  secrets: StoreSecrets,
  { keepsWal = false } = {},
): Promise<void> {
  const note = passwordNote(home)
  if (note === secrets.note(store)) return
  const isFirst = keepsWal && note !== secrets.note(REPLACED) && isInherited(note, store)
  // A process may have changed the password and ended before it wrote the note.
  const passwords = [...secrets.adminOf(note), ...secrets.admin(store)]
  const verifiers = Promise.all([scramVerifier(secrets.admin(store)[0]), scramVerifier(secrets.loginReader(store)[0])])
  // It may fail while the session is opened.
  verifiers.catch(() => undefined)
  const session = await ownSession({ ...LOGIN, host: socketDir, passwords })
  try {
    const [admin, reader] = await verifiers
    await setOwnRoles(session, { admin, reader }, isFirst ? KEEP_WAL_SQL : undefined)
  } catch (error) {
    await endSession(session)
    throw error
  }
  // A client waits.
  await Promise.all([endSession(session), notePassword(home, secrets.note(store))])
}

/** Whether a store has its parent's passwords yet, as before its first start. */
const isInherited = (note: string | undefined, store: string): boolean => note?.split('@')[0] !== store

const LOGIN = { port: SERVER_PORT, user: ADMIN, name: 'neap: passwords', timeoutMs: 4_000 } as const

/** The access rule of a server that is started only to be given a password. */
export const UNPROVEN_HBA = `local neap ${ADMIN} trust\n`
const QUIET = 'max_logical_replication_workers = 0\nautovacuum = off\n'

/**
 * Gives neap_admin a known password when the key of its own is gone: starts a server only for this and stops it again,
 * before any code of a tenant can run in it. Errors: UnknownKeyError when the key may still exist somewhere.
 * @param options.keepsWal whether its WAL is kept from its first start on, which this may be
 */
export async function replaceUnknownPassword(
  plan: ServerPlan,
  store: string,
  secrets: StoreSecrets,
  { keepsWal = false } = {},
): Promise<Progress> {
  const { home, socketDir, fence } = plan
  const note = passwordNote(home)
  if (secrets.adminOf(note).length > 0) return 'done'
  if (!secrets.isGone(note))
    throw new UnknownKeyError(
      'The passwords of this data are under a key that is not in the key file: ' +
        'put back the key file that it was used with.',
    )
  // A running server asks for the old password.
  if ((await stopServer(home, { fence })) === 'pending') return 'pending'
  const alone = { ...plan, egress: '', hba: UNPROVEN_HBA, config: plan.config + QUIET }
  if ((await startServer(alone)) === 'pending') return 'pending'
  const session = await unprovenSession({ ...LOGIN, host: socketDir })
  try {
    const [password] = secrets.admin(REPLACED)
    await session.query(`alter role ${ADMIN} password '${await scramVerifier(password)}'`)
    if (keepsWal && isInherited(note, store)) await session.query(KEEP_WAL_SQL)
  } finally {
    await endSession(session)
  }
  if ((await stopServer(home, { fence })) === 'pending') return 'pending'
  await notePassword(home, secrets.note(REPLACED))
  return 'done'
}

/** The id that a password derives from until the next start: no store has it. */
const REPLACED = 'replaced'
