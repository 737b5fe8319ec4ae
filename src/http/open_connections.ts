import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import { adminSockets } from './auth.ts'

/**
 * Refuses requests on connections over the process's limit while file descriptors are left: without one, clients would
 * only wait in the kernel's accept queue. The admin socket is exempt.
 */
export function limitOpenConnections(app: FastifyInstance): void {
  const most = Math.max(1, openFilesLimit() - RESERVED_FILES)
  let open = 0
  app.server.on('connection', (socket) => {
    open++
    socket.once('close', () => open--)
  })
  app.addHook('onRequest', async (request, reply) => {
    if (open <= most || adminSockets.has(request.raw.socket)) return
    void reply.header('connection', 'close')
    throw new AppError(
      'UNAVAILABLE',
      `This API has ${most} connections open, as many as it may. ` +
        'Close some, or start Neap with a higher limit (ulimit -n).',
    )
  })
}
