import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { isAllowed } from '../accept/allow_list.ts'
import { MAX_SESSIONS, type SessionContext } from '../session/session_context.ts'
import type { LoggedIn } from '../auth/client_login.ts'
import { ClientGone, ProxyError } from '../wire/errors.ts'
import { asProxyError } from '../wire/report.ts'
import { PROTOCOL_3_2, type Startup } from '../wire/startup.ts'
import type { Pools } from './pools.ts'
import { pooledSession } from './session.ts'
import { encodeWelcome, settingsOf } from './welcome.ts'

/**
 * Lengths of a cancel key in bytes: the first four take the place of a process id (Postgres manual, "BackendKeyData").
 */
const [SHORT_KEY, LONG_KEY] = [4 + 4, 4 + 32] as const

/**
 * Adds the client to its pool.
 * Errors: unpoolable, too_many_connections, compute_refused, ClientGone, and those of opening the first server
 * connection.
 */
export async function joinPool(
  context: SessionContext & { readonly pools: Pools },
  client: Duplex,
  { version, parameters }: Startup,
  { endpointId, allowed, ...admitted }: LoggedIn,
): Promise<void> {
  const { sessions, pools, cancelKeys } = context
  if (client.destroyed) throw new ClientGone('closed right after its startup packet')
  const user = parameters.get('user') ?? ''
  const pool = pools.enter({ endpointId, user, database: parameters.get('database') ?? user }, admitted)
  client.once('close', pool.join())
  if (sessions.size >= MAX_SESSIONS) throw new ProxyError('too_many_connections')
  const { all, tracked } = await settingsOf(pool, client, parameters)
  if (client.destroyed) throw new ClientGone('closed while it was let in')
  const key = randomBytes(version < PROTOCOL_3_2 ? SHORT_KEY : LONG_KEY)
  // The key begins with a process id, which clients hold in a signed integer of Postgres.
  key.writeUInt8(key.readUInt8(0) & 0x7f, 0)
  client.write(encodeWelcome(all, key))
  const session = pooledSession(client, pool, tracked, (error) => asProxyError(error, context))
  sessions.add(session)
  const forget = cancelKeys.remember(key, {
    cancel: () => session.cancel(),
    admits: (from) => isAllowed(from, allowed),
  })
  client.once('close', () => {
    sessions.delete(session)
    forget()
  })
}
