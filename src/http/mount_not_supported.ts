import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'
import { admit } from './admit.ts'
import { BASE, type Gates } from './mount.ts'
import { NOT_SUPPORTED } from './not_supported.ts'

/** Refuses the operations of the public API that Neap does not have, before their bodies are read. */
export function mountNotSupported(app: FastifyInstance, gates: Gates): void {
  for (const { product, instead, operations } of NOT_SUPPORTED) {
    for (const key of operations) {
      const [method = '', path = ''] = key.split(' ')
      app.route({
        method,
        url: BASE + path,
        schema: { hide: true },
        onRequest: async (request, reply) => {
          await admit(request, reply, { key, tag: 'Not supported' }, gates)
          // Public clients recognize a missing product by "not available", and continue without it.
          throw new AppError('NOT_SUPPORTED', `Neap has no ${product}: not available here. ${instead}`)
        },
        handler: () => {},
      })
    }
  }
}
