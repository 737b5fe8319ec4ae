import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiResponse, ApiClient } from '../client.ts'
import { AppError } from '../errors.ts'
import { duration, printable } from './table.ts'

export type ApiOperation = ApiResponse<'GET /projects/:project_id/operations/:operation_id'>['operation']

/** An API that waits for an operation answers so often, so that its progress is seen. */
const REQUEST_SECONDS = 2
/** The shortest interval between requests to an API that does not wait itself. */
const LEAST_BETWEEN_MS = 1000

export const isEnded = ({ status }: ApiOperation): boolean => status === 'finished' || status === 'failed'

/**
 * Waits until operations have ended or the time is over; returns their last state. Shows their progress on standard
 * error unless it is to be quiet.
 */
export async function waitFor(
  call: ApiClient,
  operations: readonly ApiOperation[],
  { seconds, isQuiet }: { readonly seconds: number; readonly isQuiet: boolean },
): Promise<ApiOperation[]> {
  const deadline = performance.now() + seconds * 1000
  const progress = isQuiet ? undefined : process.stderr.isTTY ? progressLine() : progressLines()
  const now: ApiOperation[] = []
  try {
    for (const operation of operations) {
      progress?.show(operation)
      now.push(await endOf(call, operation, deadline, progress))
    }
  } finally {
    progress?.end()
  }
  return now
}

async function endOf(
  call: ApiClient,
  operation: ApiOperation,
  deadline: number,
  progress: Progress | undefined,
): Promise<ApiOperation> {
  const params = { project_id: operation.project_id, operation_id: operation.id }
  let current = operation
  for (let left = deadline - performance.now(); !isEnded(current) && left > 0; left = deadline - performance.now()) {
    const asked = performance.now()
    const wait = Math.ceil(Math.min(REQUEST_SECONDS, left / 1000))
    const answer = await call('GET /projects/:project_id/operations/:operation_id', { params }, { wait }).catch(ifAway)
    current = answer?.operation ?? current
    if (!isEnded(current)) progress?.show(current)
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

/** Shows an operation that has not ended. */
interface Progress {
  readonly show: (operation: ApiOperation) => void
  readonly end: () => void
}

const progressOf = ({ action, wait_reason }: ApiOperation): string =>
  printable(wait_reason === undefined ? action : `${action}: ${wait_reason}`)

/** A line of a terminal with the current operation and the elapsed time, which is replaced each second. */
function progressLine(): Progress {
  const begun = Date.now()
  let what = ''
  const write = () => {
    const line = `… ${what} (${duration(Date.now() - begun)})`
    // A line that is wider than the terminal could not be replaced.
    process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`)
  }
  const timer = setInterval(write, 1000)
  return {
    show: (operation) => {
      what = progressOf(operation)
      write()
    },
    end: () => {
      clearInterval(timer)
      process.stderr.write('\r\x1b[K')
    },
  }
}

/** Interval between lines for a log or a pipe. A shorter wait has no line. */
const LINE_MS = 5_000

/** A line for each change of the current operation. */
function progressLines(): Progress {
  let [written, last] = [Date.now(), '']
  return {
    show: (operation) => {
      const line = progressOf(operation)
      if (line === last || Date.now() - written < LINE_MS) return
      ;[written, last] = [Date.now(), line]
      process.stderr.write(`${line}\n`)
    },
    end: () => {},
  }
}
