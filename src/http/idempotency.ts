import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Db } from '../catalog/catalog.ts'
import { findReply, type IdempotencySlot, storeReply, takeSlot } from '../catalog/idempotency.ts'
import { sql } from '../catalog/sql.ts'
import { AppError, ERRORS } from '../errors.ts'
import { replyContext } from '../secrets/contexts.ts'
import type { Secrets } from '../secrets/secrets.ts'
import { FormBody } from './bodies.ts'

/** The reply to a request: the status, and the body as an object. */
export interface Reply {
  readonly status: number
  readonly body: unknown
  readonly replayed?: 'to its caller' | 'to another caller'
}

/** Refusals that a retry may avoid are not stored. */
const NOT_KEPT: readonly number[] = [ERRORS.LOCKED.status, ERRORS.RATE_LIMITED.status]

/** The client's idempotency key, if given (draft-ietf-httpapi-idempotency-key-header). Errors: INVALID_REQUEST. */
export function idempotencyKeyOf(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && key.length >= 1 && key.length <= 255) return key
  throw new AppError('INVALID_REQUEST', 'The header Idempotency-Key takes 1 to 255 characters.')
}

/**
 * Runs a change once for its key: a repeated request gets the reply of the first, also while the first is under way.
 * The key, the effect and the reply commit together. A refusal is also a reply; it rolls the change back.
 * @param refuse makes the reply of a refusal and writes its catalog rows
 * Errors: IDEMPOTENCY_KEY_REUSED (the key came with another request before).
 */
export async function once(
  tx: Db,
  secrets: Secrets,
  slot: IdempotencySlot,
  request: FastifyRequest,
  perform: () => Promise<Reply>,
  refuse: (error: AppError) => Promise<Reply>,
): Promise<Reply> {
  const hash = hashOf(request)
  if (!(await takeSlot(tx, slot, hash))) {
    const first = await findReply(tx, slot)
    if (!first)
      throw new AppError('UNAVAILABLE', 'The first request with this Idempotency-Key has just been forgotten.')
    if (!first.request_hash.equals(hash)) throw new AppError('IDEMPOTENCY_KEY_REUSED')
    const body = JSON.parse(secrets.decrypt('reply', first.reply, replyContext(slot))) as unknown
    const isOwn = first.api_key_id === (slot.apiKeyId ?? null) && first.person_id === (slot.personId ?? null)
    return {
      status: first.status,
      body,
      replayed: isOwn ? 'to its caller' : 'to another caller',
    }
  }
  await tx.rows(sql`savepoint change`)
  const reply = await perform().catch(async (error: unknown) => {
    if (!(error instanceof AppError) || ERRORS[error.code].status >= 500) throw error
    if (NOT_KEPT.includes(ERRORS[error.code].status)) throw error
    await tx.rows(sql`rollback to savepoint change`)
    return refuse(error)
  })
  await storeReply(tx, slot, reply.status, secrets.encrypt('reply', JSON.stringify(reply.body), replyContext(slot)))
  return reply
}

function hashOf({ url, body }: FastifyRequest): Buffer {
  const fields = body instanceof FormBody ? body.fields : body
  return createHash('sha256')
    .update(JSON.stringify([url.split('?')[1] ?? '', fields ?? null]))
    .digest()
}
