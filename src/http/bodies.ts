import type { FastifyInstance } from 'fastify'
import { parse } from 'qs'
import { AppError } from '../errors.ts'
import { unfitFor } from './unfit.ts'

/** A body that came as a form: all its values are text still, and become what the schema of the route says. */
export class FormBody {
  readonly fields: Record<string, unknown>

  constructor(fields: Record<string, unknown>) {
    this.fields = fields
  }
}

/**
 * Takes JSON, forms with brackets (`endpoint[branch_id]=…`), and nothing at all under any content type: clients send one with
 * requests that have no body.
 */
export function acceptBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, async (_request: unknown, body: string) => {
    if (body.trim() === '') return undefined
    return fit(parsed(body))
  })
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: unknown, body: string) => (body.trim() === '' ? undefined : new FormBody(fit(formFields(body)))),
  )
  app.addContentTypeParser('*', { parseAs: 'string' }, async (_request: unknown, body: string) => {
    if (body.trim() === '') return undefined
    throw new AppError('UNSUPPORTED_MEDIA_TYPE')
  })
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body) as unknown
  } catch (error) {
    throw new AppError('INVALID_REQUEST', 'The body is not valid JSON.', { cause: error })
  }
}

function fit<T>(body: T): T {
  const unfit = unfitFor(body)
  if (unfit) throw new AppError('INVALID_REQUEST', `invalid request: the body ${unfit}`)
  return body
}

function formFields(body: string): Record<string, unknown> {
  try {
    return parse(body, {
      depth: 8,
      strictDepth: true,
      parameterLimit: 1000,
      throwOnLimitExceeded: true,
      arrayLimit: 100,
    })
  } catch (error) {
    throw new AppError('INVALID_REQUEST', 'The form is nested too deeply or has too many fields.', { cause: error })
  }
}
