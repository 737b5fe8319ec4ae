import { ADMIN, ownSession, endSession } from '../../postgres/own_session.ts'
import type { Progress } from '../../host/fence.ts'
import { WITHOUT_PREWARM } from '../../postgres/settings.ts'
import { SERVER_PORT } from '../../host/layout.ts'
import { type ServerPlan, startServer } from './server.ts'
import { stopServer } from './stop_server.ts'
import { unmarkSubscribed } from '../../storage/subscription_mark.ts'

/**
 * Disables the subscriptions that a marked clone inherited, before its first client and before its own apply workers.
 * These start with the server, so the change runs in a server that starts none and that no client can reach.
 */
export async function disableSubscriptions(plan: ServerPlan, passwords: readonly string[]): Promise<Progress> {
  const server = await startServer({
    ...plan,
    // Subscriptions must not reach a publisher before they are disabled.
    egress: '',
    config: `${plan.config}${WITHOUT_PREWARM}max_logical_replication_workers = 0\n`,
  })
  if (server === 'pending') return 'pending'
  const session = await ownSession({
    host: plan.socketDir,
    port: SERVER_PORT,
    user: ADMIN,
    passwords,
    name: 'neap: subscriptions',
    // A compute that does not answer must not block the worker's step for ever.
    timeoutMs: 4_000,
  })
  try {
    await session.query('UPDATE pg_subscription SET subenabled = false WHERE subenabled')
  } finally {
    await endSession(session)
  }
  if ((await stopServer(plan.home, { fence: plan.fence })) === 'pending') return 'pending'
  unmarkSubscribed(plan.home)
  return 'done'
}
