import { ensureDefaultAccount } from '../catalog/account.ts'
import { takeCensus } from '../catalog/census.ts'
import { adminSocket } from '../config.ts'
import type { Context } from '../context.ts'
import { adminSockets } from '../http/auth.ts'
import { buildServer } from '../http/server.ts'
import { cidrList } from '../network.ts'
import { createCensusMetrics } from '../observe/catalog_metrics.ts'
import type { Probes } from '../observe/probes.ts'
import { holdAdminSocket } from './admin_socket.ts'
import { listenForApi } from './api_listeners.ts'
import { certificateOf } from './certificate.ts'
import type { Part } from './part.ts'

/** The management API, at its addresses and on a 0600 Unix socket for the administrator. */
export async function startApi(context: Context, probes: Probes): Promise<Part> {
  const { config } = context
  await ensureDefaultAccount(context.catalog, config.plan)
  const app = await buildServer(context)
  // Here, since the API runs even without a worker: the metrics must show a queue that no worker processes.
  createCensusMetrics(context.registry, () => takeCensus(context.catalog))
  // For load balancers; metrics are on a port of their own, which they need not reach.
  for (const path of ['/healthz', '/readyz'] as const)
    app.get(path, { schema: { hide: true } }, async (_request, reply) => {
      const { status, type, body } = await probes(path)
      return reply.status(status).type(type).send(body)
    })
  await app.ready()
  const listeners = await listenForApi(app.server, {
    addresses: config.listen,
    port: config.apiPort,
    connectionsPerAddress: config.apiConnectionsPerAddress,
    unlimited: cidrList(config.forwardedForFrom),
    certificate: certificateOf(config),
    log: context.log,
  })
  const admin = await holdAdminSocket({
    path: adminSocket(config),
    serve: (request, response) => app.routing(request, response),
    onConnection: (connection) => adminSockets.add(connection),
    onError: (error) => context.log.warn({ err: error }, 'could not check the administration socket'),
  })
  return {
    port: listeners.port,
    async stop() {
      listeners.close()
      await admin.stop()
      await app.close()
      await listeners.end()
    },
  }
}
