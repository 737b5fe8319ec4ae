import { createServer } from 'node:http'
import { chmod, rm } from 'node:fs/promises'
import { ensureDefaultAccount } from '../catalog/account.ts'
import { adminSocket } from '../config.ts'
import type { Context } from '../context.ts'
import { adminSockets } from '../http/auth.ts'
import { buildServer } from '../http/server.ts'
import type { Part } from './part.ts'

const HOST = '127.0.0.1'

/** The management API on its loopback port, and on a 0600 Unix socket for whoever administers this Neap. */
export async function startApi(context: Context): Promise<Part> {
  const { config } = context
  await ensureDefaultAccount(context.catalog, config.plan)
  const app = await buildServer(context)
  await app.listen({ host: HOST, port: config.apiPort, backlog: 1024 })
  const socket = adminSocket(config)
  await rm(socket, { force: true })
  const admin = createServer((request, response) => app.routing(request, response))
  admin.on('connection', (connection) => adminSockets.add(connection))
  const mask = process.umask(0o177)
  await new Promise<void>((resolve, reject) => admin.once('error', reject).listen(socket, resolve))
  process.umask(mask)
  await chmod(socket, 0o600)
  const address = app.server.address()
  return {
    port: typeof address === 'object' && address ? address.port : config.apiPort,
    async stop() {
      admin.close()
      admin.closeAllConnections()
      await app.close()
    },
  }
}
