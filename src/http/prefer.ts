import type { FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { findBranch } from '../catalog/branch.ts'
import { findProjectEndpoint } from '../catalog/endpoint.ts'
import { awaitOperations } from '../catalog/operation.ts'
import type { Context } from '../context.ts'
import { type Branch, branchViewWithUse } from '../views/branch.ts'
import { type Endpoint, endpointView } from '../views/endpoint.ts'
import { type Operation, operationView } from '../views/operation.ts'

const MAX_SECONDS = 300

/**
 * The seconds that the client would wait for operations, at most 300: `Prefer: wait=<seconds>` (RFC 7240, section 4.3).
 */
export function preferredWait(request: FastifyRequest): number | undefined {
  const preferences = String(request.headers['prefer'] ?? '').split(',')
  const [, seconds] =
    preferences.map((each) => /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;|$)/i.exec(each)).find(Boolean) ?? []
  return seconds === undefined ? undefined : Math.min(Number(seconds), MAX_SECONDS)
}

interface Waitable {
  readonly operation?: Static<typeof Operation>
  readonly operations?: readonly Static<typeof Operation>[]
  readonly endpoint?: Static<typeof Endpoint>
  readonly endpoints?: readonly Static<typeof Endpoint>[]
  readonly branch?: Static<typeof Branch>
}

/**
 * Returns the answer with the state of its operations, and of their branch and endpoints, once the operations have
 * ended, the time is over or the client has gone. Deleted resources stay as they were. A failed wait returns the answer
 * unchanged: the change is committed, and an error could make the client repeat it.
 */
export async function awaited(context: Context, answer: unknown, seconds: number, gone: AbortSignal): Promise<unknown> {
  return ended(context, answer, seconds, gone).catch((error: unknown) => {
    context.log.warn({ err: error }, 'could not wait for operations; answering their last known state')
    return answer
  })
}

async function ended(context: Context, answer: unknown, seconds: number, gone: AbortSignal): Promise<unknown> {
  const { operation, operations, endpoint, endpoints, branch } = answer as Waitable
  const ids = (operations ?? (operation ? [operation] : [])).map(({ id }) => id)
  if (ids.length === 0) return answer
  const now = new Map(
    (await awaitOperations(context.catalog, ids, seconds * 1000, gone)).map((row) => [row.id, operationView(row)]),
  )
  const nowOf = async (was: Static<typeof Endpoint>) => {
    const row = await findProjectEndpoint(context.catalog, was.project_id, was.id)
    return row ? endpointView(row, context.config) : was
  }
  const branchNow = branch && (await findBranch(context.catalog, branch.project_id, branch.id))
  // The response of a restore has fields that other branches lack; they are kept.
  const { pending_state: _, ...wasBranch } = branch ?? {}
  return {
    ...(answer as object),
    ...(operation && { operation: now.get(operation.id) ?? operation }),
    ...(operations && { operations: operations.map((each) => now.get(each.id) ?? each) }),
    ...(endpoint && { endpoint: await nowOf(endpoint) }),
    ...(endpoints && { endpoints: await Promise.all(endpoints.map(nowOf)) }),
    ...(branchNow && { branch: { ...wasBranch, ...(await branchViewWithUse(context.catalog, branchNow)) } }),
  }
}
