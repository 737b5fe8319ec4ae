import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'

/** Takes JSON, and nothing at all under any content type: clients send one with requests that have no body. */
export function acceptBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, async (_request: unknown, body: string) => {
    if (body.trim() === '') return undefined
    try {
      return JSON.parse(body) as unknown
    } catch (error) {
      throw new AppError('INVALID_REQUEST', 'The body is not valid JSON.', { cause: error })
    }
  })
  app.addContentTypeParser('*', { parseAs: 'string' }, async (_request: unknown, body: string) => {
    if (body.trim() === '') return undefined
    throw new AppError('UNSUPPORTED_MEDIA_TYPE')
  })
}
