import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiResponse, ApiClient } from '../client.ts'
import { AppError } from '../errors.ts'
import { duration } from './table.ts'

export type ApiOperation = ApiResponse<'GET /projects/:project_id/operations/:operation_id'>['operation']

/** Limit on the wait of one request, so that no proxy on the way to the API considers the connection dead. */
const REQUEST_SECONDS = 30
/** The shortest interval between requests to an API that does not wait itself. */
const LEAST_BETWEEN_MS = 1000

export const isEnded = ({ status }: ApiOperation): boolean => status === 'finished' || status === 'failed'

/** Waits until operations have ended or the time is over; returns their last state. Shows progress on a terminal. */
export async function waitFor(
  call: ApiClient,
  operations: readonly ApiOperation[],
  seconds: number,
): Promise<ApiOperation[]> {
  const deadline = performance.now() + seconds * 1000
  const progress = progressLine()
  const now: ApiOperation[] = []
  try {
    for (const operation of operations) {
      progress.show(operation.action)
      now.push(await endOf(call, operation, deadline))
    }
  } finally {
    progress.end()
  }
  return now
}

async function endOf(call: ApiClient, operation: ApiOperation, deadline: number): Promise<ApiOperation> {
  const params = { project_id: operation.project_id, operation_id: operation.id }
  let current = operation
  for (let left = deadline - performance.now(); !isEnded(current) && left > 0; left = deadline - performance.now()) {
    const asked = performance.now()
    const wait = Math.ceil(Math.min(REQUEST_SECONDS, left / 1000))
    const answer = await call('GET /projects/:project_id/operations/:operation_id', { params }, { wait }).catch(ifAway)
    current = answer?.operation ?? current
    if (!isEnded(current)) await sleep(Math.max(0, asked + LEAST_BETWEEN_MS - performance.now()))
  }
  return current
}

/** Tolerates an API that has lost its catalog or is overloaded: a later request may succeed. */
function ifAway(error: unknown): undefined {
  if (!(error instanceof AppError && ['UNAVAILABLE', 'RATE_LIMITED'].includes(error.code))) throw error
}

/** The message about the first operation that failed or has not ended. Returns undefined when all finished. */
export function problemOf(operations: readonly ApiOperation[]): string | undefined {
  const failed = operations.find(({ status }) => status === 'failed')
  if (failed) return `${failed.action} failed: ${failed.error ?? `see neap operations get ${failed.id}`}`
  const open = operations.find((operation) => !isEnded(operation))
  if (!open) return undefined
  return (
    `${open.action} is still ${open.status} and goes on; wait for it with: ` +
    `neap operations wait ${open.id} --project ${open.project_id}`
  )
}

/** A line on standard error with the current operation and the elapsed time; no output when that is no terminal. */
function progressLine() {
  if (!process.stderr.isTTY) return { show: () => {}, end: () => {} }
  const begun = Date.now()
  let what = ''
  const write = () => process.stderr.write(`\r\x1b[K… ${what} (${duration(Date.now() - begun)})`)
  const timer = setInterval(write, 1000)
  return {
    show: (action: string) => {
      what = action
      write()
    },
    end: () => {
      clearInterval(timer)
      process.stderr.write('\r\x1b[K')
    },
  }
}
