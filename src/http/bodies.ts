import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { FormError, parseForm } from './form.ts'
import type { KeyUse } from './key_use.ts'
import { threadCpuMs } from './thread_cpu.ts'
import { unstorableReason } from './storable_text.ts'

/** Default limit of a body, in bytes; most bodies have a few hundred. */
export const BODY_BYTES = 16 * 1024

/** A form body: its values are text until the route's schema converts them. */
export class FormBody {
  readonly fields: Record<string, unknown>

  constructor(fields: Record<string, unknown>) {
    this.fields = fields
  }
}

/**
 * Accepts JSON, forms with brackets (`endpoint[branch_id]=…`), and an empty body of any content type: clients send a
 * content type with requests that have no body. Parsing is charged to the caller's key.
 */
export function acceptBodies(app: FastifyInstance, use: KeyUse): void {
  const accept = (type: string, read: (body: string) => unknown): void => {
    app.addContentTypeParser(type, { parseAs: 'string' }, async ({ caller }: FastifyRequest, body: string) => {
      const began = threadCpuMs()
      try {
        return body.trim() === '' ? undefined : read(body)
      } finally {
        use.charge(caller, threadCpuMs() - began)
      }
    })
  }
  app.removeAllContentTypeParsers()
  accept('application/json', (body) => fit(parsed(body)))
  accept('application/x-www-form-urlencoded', (body) => new FormBody(fit(formFields(body))))
  accept('*', () => {
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
  const unfit = unstorableReason(body)
  if (unfit) throw new AppError('INVALID_REQUEST', `invalid request: the body ${unfit}`)
  return body
}

function formFields(body: string): Record<string, unknown> {
  try {
    return parseForm(body)
  } catch (error) {
    throw error instanceof FormError ? new AppError('INVALID_REQUEST', error.message) : error
  }
}
