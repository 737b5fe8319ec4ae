import type { IncomingHttpHeaders } from 'node:http'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../../errors.ts'
import { Refusal } from './refusal.ts'
import { parseRequest, type SqlRequest } from './request.ts'

/** Bodies up to this size are parsed on the main thread: the worst takes some ten milliseconds. */
const MAX_AT_ONCE_BYTES = 16_384
/** Memory limit of the thread: a body of 10 MiB of the shortest values needs less. */
const MAX_MIB = 1_024

/**
 * Parses bodies. Large ones are parsed on a separate thread, endpoint by endpoint in turn, so that one tenant's body
 * does not block the traffic of others.
 */
export interface BodyParser {
  /** @param signal gives up with its reason. Errors: Refusal. */
  parse(endpointId: string, headers: IncomingHttpHeaders, body: Buffer, signal: AbortSignal): Promise<SqlRequest>
}

/** The result from the thread. */
export type Parsed =
  | { readonly request: SqlRequest }
  | { readonly refused: { readonly status: number; readonly message: string } }
  | { readonly failed: string }

interface Job {
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly signal: AbortSignal
  readonly settle: (parsed: Parsed) => void
}

export function createBodyParser(): BodyParser {
  /** By endpoint; the first is served next. */
  const lanes = new Map<string, Job[]>()
  let worker: Worker | undefined
  let running: Job | undefined

  function next(): void {
    if (running) return
    const [first] = lanes
    if (!first) return
    const [endpointId, jobs] = first
    lanes.delete(endpointId)
    const job = jobs.shift()
    if (jobs.length > 0) lanes.set(endpointId, jobs)
    if (!job || job.signal.aborted) return next()
    running = job
    const { headers, body } = job
    try {
      worker ??= start()
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's, which has no origins
      worker.postMessage({ headers, body })
    } catch (error) {
      // For example, the machine has no thread left.
      end({ failed: messageOf(error) })
    }
  }

  function end(parsed: Parsed): void {
    const job = running
    running = undefined
    job?.settle(parsed)
    next()
  }

  function start(): Worker {
    const started = new Worker(new URL('parse_worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: MAX_MIB },
    })
    started.on('message', end)
    // The next body starts another thread.
    started.once('error', (error: Error) => {
      worker = undefined
      end({ failed: error.message })
    })
    // After the listeners, which would keep the process alive.
    started.unref()
    return started
  }

  return {
    async parse(endpointId, headers, body, signal) {
      if (body.length <= MAX_AT_ONCE_BYTES) return parseRequest(headers, body)
      const { promise, resolve, reject } = Promise.withResolvers<SqlRequest>()
      const settle = (parsed: Parsed): void => {
        if ('request' in parsed) resolve(parsed.request)
        else if ('refused' in parsed) reject(new Refusal(parsed.refused.status, parsed.refused.message))
        else reject(new Error(`a body could not be parsed: ${parsed.failed}`))
      }
      const aborted = (): void => reject(signal.reason as Error)
      signal.addEventListener('abort', aborted, { once: true })
      const jobs = lanes.get(endpointId) ?? []
      lanes.set(endpointId, jobs)
      jobs.push({ headers, body, signal, settle })
      next()
      return promise.finally(() => signal.removeEventListener('abort', aborted))
    },
  }
}
