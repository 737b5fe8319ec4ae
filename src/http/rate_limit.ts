import type { FastifyReply } from 'fastify'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'

/** Counts a request against the limits of a family of routes. Errors: RATE_LIMITED, with `Retry-After` on the reply. */
export type Limit = (reply: FastifyReply, who: string, family: string) => void

/**
 * Limits the requests of a key to a family of routes, per second and per minute. Each api process counts by itself.
 * Counting is synchronous: requests that are let in together, such as those that shared a look-up of their key, must
 * not all see the same count.
 */
export function createLimit({ rateLimitPerSecond, rateLimitPerMinute }: Config): Limit {
  const windows = [
    { max: rateLimitPerSecond, name: 'second', count: createWindow(1_000) },
    { max: rateLimitPerMinute, name: 'minute', count: createWindow(60_000) },
  ].filter(({ max }) => max > 0)
  return (reply, who, family) => {
    for (const { max, name, count } of windows) {
      const { requests, seconds } = count(`${who} ${family}`)
      if (requests <= max) continue
      void reply.header('retry-after', String(seconds))
      throw new AppError('RATE_LIMITED', `Over ${max} requests in a ${name}. Try again in ${seconds} s.`)
    }
  }
}

/** Counts by name in windows of `ms`: the requests in this window, and the seconds until the next. */
function createWindow(ms: number) {
  let ends = 0
  let counts = new Map<string, number>()
  return (name: string): { requests: number; seconds: number } => {
    const now = performance.now()
    if (now >= ends) {
      ends = now + ms
      counts = new Map()
    }
    const requests = (counts.get(name) ?? 0) + 1
    counts.set(name, requests)
    return { requests, seconds: Math.max(1, Math.ceil((ends - now) / 1000)) }
  }
}
