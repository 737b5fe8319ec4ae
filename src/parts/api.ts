import { ensureDefaultAccount } from '../catalog/account.ts'
import { takeCensus } from '../catalog/census.ts'
import { adminSocket } from '../config.ts'
import type { Context } from '../context.ts'
import { adminSockets } from '../http/auth.ts'
import { buildServer } from '../http/server.ts'
import { createCensusMetrics } from '../observe/catalog_metrics.ts'
import type { Probes } from '../observe/probes.ts'
import { holdAdminSocket } from './admin_socket.ts'
import type { Part } from './part.ts'

const HOST = '127.0.0.1'

/** The management API on its loopback port, and on a 0600 Unix socket for whoever administers this Neap. */
export async function startApi(context: Context, probes: Probes): Promise<Part> {
  const { config } = context
  await ensureDefaultAccount(context.catalog, config.plan)
  const app = await buildServer(context)
  // Here, since it lives where a worker does not: a queue that nobody works at is what one wants to see.
  createCensusMetrics(context.registry, () => takeCensus(context.catalog))
  // Load balancers ask these; metrics are on a port of their own, which need not be reachable from where the API is.
  for (const path of ['/healthz', '/readyz'] as const)
    app.get(path, { schema: { hide: true } }, async (_request, reply) => {
      const { status, type, body } = await probes(path)
      return reply.status(status).type(type).send(body)
    })
  await app.listen({ host: HOST, port: config.apiPort, backlog: 1024 })
  const admin = await holdAdminSocket({
    path: adminSocket(config),
    serve: (request, response) => app.routing(request, response),
    onConnection: (connection) => adminSockets.add(connection),
    onError: (error) => context.log.warn({ err: error }, 'could not see to the administration socket'),
  })
  const address = app.server.address()
  return {
    port: typeof address === 'object' && address ? address.port : config.apiPort,
    async stop() {
      await admin.stop()
      await app.close()
    },
  }
}
