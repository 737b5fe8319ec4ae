import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiResponse, ApiClient } from '../client.ts'
import { AppError } from '../errors.ts'
import { duration } from './table.ts'

export type ApiOperation = ApiResponse<'GET /projects/:project_id/operations/:operation_id'>['operation']

/** One request waits at most so long, so that nothing between here and the API takes it for dead. */
const REQUEST_SECONDS = 30
/** An API that does not wait itself is asked no more often than this. */
const LEAST_BETWEEN_MS = 1000

export const isEnded = ({ status }: ApiOperation): boolean => status === 'finished' || status === 'failed'

/** Waits until operations have ended, or so many seconds are over, and answers how they are then; tells of it on a terminal. */
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

/** An API that has lost its catalog for a moment, or has too much to do, will know later. */
function ifAway(error: unknown): undefined {
  if (!(error instanceof AppError && ['UNAVAILABLE', 'RATE_LIMITED'].includes(error.code))) throw error
}

/** What is to be said of operations that were waited for: the first that failed, or that has not ended. */
export function problemOf(operations: readonly ApiOperation[]): string | undefined {
  const failed = operations.find(({ status }) => status === 'failed')
  if (failed) return `${failed.action} failed: ${failed.error ?? `see neap operations get ${failed.id}`}`
  const open = operations.find((operation) => !isEnded(operation))
  if (!open) return undefined
  return `${open.action} is still ${open.status} and goes on; wait for it with: neap operations wait ${open.id} --project ${open.project_id}`
}

/** One line on standard error that says what is waited for and how long already; nothing where that is no terminal. */
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
