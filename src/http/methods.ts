import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'

/**
 * Answers a method that a path does not have (405 with `Allow`; RFC 9110, section 15.5.6), a path that does not exist,
 * and OPTIONS. Register before the routes. Errors: METHOD_NOT_ALLOWED, NOT_FOUND.
 */
export function answerOtherMethods(app: FastifyInstance): void {
  const paths = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`).replaceAll(/:\w+/g, '[^/]+')}$`)
    const path = paths.get(url) ?? { pattern, methods: new Set() }
    for (const each of [method].flat()) path.methods.add(each)
    paths.set(url, path)
  })
  const methodsOf = (asked: string): string[] =>
    [...paths.values()].flatMap(({ pattern, methods }) => (pattern.test(asked) ? [...methods] : []))

  // Before the body is read: these answers do not use it.
  app.addHook('onRequest', async (request, reply) => {
    if (!request.is404) return
    const [path = ''] = request.url.split('?')
    const allowed = [...new Set(methodsOf(path))].sort()
    if (allowed.length === 0) throw new AppError('NOT_FOUND', `There is no ${request.method} ${path}.`)
    void reply.header('allow', [...allowed, 'OPTIONS'].join(', '))
    if (request.method !== 'OPTIONS')
      throw new AppError('METHOD_NOT_ALLOWED', `${path} does not take ${request.method}, but ${allowed.join(', ')}.`)
    await reply.status(204).send()
  })
}
