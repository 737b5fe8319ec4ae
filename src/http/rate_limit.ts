import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'

/** Counts a request of somebody against the limits of a family of routes. Errors: RATE_LIMITED, with `Retry-After` on the reply. */
export type Limit = (request: FastifyRequest, reply: FastifyReply, who: string, family: string) => Promise<void>

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request is counted as: whose, and which family of routes. */
    counted: string
  }
}

/** Limits by key and family of routes: so many in a minute, and so many at once. Each api process counts for itself. */
export async function createLimit(app: FastifyInstance, config: Config): Promise<Limit> {
  await app.register(rateLimit, { global: false })
  app.decorateRequest('counted', '')
  const windows = [
    { max: config.rateLimitPerSecond, timeWindow: 1_000, name: 'second' },
    { max: config.rateLimitPerMinute, timeWindow: 60_000, name: 'minute' },
  ]
  const limits = windows
    .filter(({ max }) => max > 0)
    .map(({ name, ...window }) => ({
      ...window,
      name,
      check: app.createRateLimit({ ...window, keyGenerator: (request) => `${name} ${request.counted}` }),
    }))
  return async (request, reply, who, family) => {
    request.counted = `${who} ${family}`
    for (const { check, max, name } of limits) {
      const found = await check(request)
      if (found.isAllowed || !found.isExceeded) continue
      void reply.header('retry-after', String(Math.max(1, found.ttlInSeconds)))
      throw new AppError('RATE_LIMITED', `Over ${max} requests in a ${name}. Try again in ${found.ttlInSeconds} s.`)
    }
  }
}
