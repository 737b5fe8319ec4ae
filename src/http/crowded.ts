import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import { adminSockets } from './auth.ts'

/**
 * Refuses requests on connections that are more than the process may have open, while it can still say so: without a descriptor
 * left the kernel's queue would be all that clients ever see. The administrator's socket always has room.
 */
export function refuseWhenCrowded(app: FastifyInstance): void {
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
      `This API has ${most} connections open, as many as it may. Close some, or start Neap with a higher limit (ulimit -n).`,
    )
  })
}
