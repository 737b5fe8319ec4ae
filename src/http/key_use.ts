import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import { threadCpuMs } from './thread_cpu.ts'
import { type Caller, credentialName } from './route.ts'

/** The limits of an account, over all its keys, as a multiple of those of one key. */
const ACCOUNT_FACTOR = 2
/** CPU time that may be used at once after a pause. */
const CPU_BURST_MS = 1_000
/** CPU time reserved for a request until it ends: limits how many concurrent requests begin. */
const RESERVED_MS = 5
/** Assumed CPU time of an operation in the worker, the catalog and the compute. */
const OPERATION_MS = 5
/** Assumed CPU time of a request beyond the measured part: log line, metrics, and the transaction of a change. */
const REQUEST_MS = { read: 0.5, change: 2 }
const SWEEP_MS = 60_000

declare module 'fastify' {
  interface FastifyRequest {
    /** Start of the synchronous section that is being measured, by `threadCpuMs`; 0 outside of one. */
    cpuSince: number
  }
}

/** Limits the use of this process by API keys and sessions. The admin socket has no limit. */
export interface KeyUse {
  /**
   * Counts a request as under way until its response has been sent or its connection has closed. Errors: RATE_LIMITED
   * (too many at once, or no CPU time left), with `Retry-After` on the reply.
   */
  enter(caller: Caller, kind: 'requests' | 'streams', reply: FastifyReply): void
  /** Takes milliseconds of CPU time from the budgets of the caller's credential and account. */
  charge(caller: Caller | undefined, ms: number): void
  stop(): void
}

interface Use {
  requests: number
  streams: number
  /** Milliseconds left as of `refilledAt`; below 0 when overdrawn. */
  cpuMs: number
  refilledAt: number
}

export function createKeyUse(
  { requestsPerKey, streamsPerKey, cpuPerKey }: Pick<Config, 'requestsPerKey' | 'streamsPerKey' | 'cpuPerKey'>,
  now = () => performance.now(),
): KeyUse {
  const uses = new Map<string, Use>()
  const limits = { requests: requestsPerKey, streams: streamsPerKey }
  const share = cpuPerKey / 100

  const timer = setInterval(() => {
    for (const [name, use] of uses)
      if (use.requests === 0 && use.streams === 0 && now() - use.refilledAt > SWEEP_MS) uses.delete(name)
  }, SWEEP_MS).unref()

  function useOf(name: string, factor: number): Use {
    let use = uses.get(name)
    if (!use) {
      use = { requests: 0, streams: 0, cpuMs: CPU_BURST_MS * factor, refilledAt: now() }
      uses.set(name, use)
    }
    return use
  }

  /** The budgets of the caller's credential and of its account. */
  const budgetsOf = (caller: Caller, name: string) =>
    [
      { use: useOf(name, 1), factor: 1, of: caller.credential.kind === 'session' ? 'This session' : 'This API key' },
      { use: useOf(`account ${caller.account.id}`, ACCOUNT_FACTOR), factor: ACCOUNT_FACTOR, of: 'This account' },
    ] as const

  function refill(use: Use, factor: number): number {
    const at = now()
    use.cpuMs = Math.min(CPU_BURST_MS * factor, use.cpuMs + (at - use.refilledAt) * share * factor)
    use.refilledAt = at
    return use.cpuMs
  }

  return {
    enter(caller, kind, reply) {
      const name = credentialName(caller)
      if (name === undefined) return
      const budgets = budgetsOf(caller, name)
      for (const { use, factor, of } of budgets) {
        const limit = limits[kind] * factor
        if (limit > 0 && use[kind] >= limit)
          throw tooMuch(reply, 1, `${of} has ${limit} ${kind} under way, as many as it may. Wait until one has ended.`)
        if (share === 0 || refill(use, factor) > 0) continue
        const seconds = Math.ceil((1 - use.cpuMs) / (share * factor) / 1000)
        throw tooMuch(reply, seconds, `${of} has taken more CPU time than it may. Try again in ${seconds} s.`)
      }
      // A client that left while its key was looked up emits no more events.
      if (reply.raw.destroyed) return
      const reserved = kind === 'requests' ? RESERVED_MS : 0
      for (const { use } of budgets) {
        use[kind]++
        use.cpuMs -= reserved
      }
      reply.raw.once('close', () => {
        for (const { use } of budgets) {
          use[kind]--
          use.cpuMs += reserved
        }
      })
    },
    charge(caller, ms) {
      if (share === 0 || !caller) return
      const name = credentialName(caller)
      if (name === undefined) return
      for (const { use } of budgetsOf(caller, name)) use.cpuMs -= ms
    },
    stop: () => clearInterval(timer),
  }
}

const operationsIn = (answer: unknown): number =>
  typeof answer === 'object' && answer !== null && 'operations' in answer && Array.isArray(answer.operations)
    ? answer.operations.length
    : 0

function tooMuch(reply: FastifyReply, seconds: number, message: string): AppError {
  void reply.header('retry-after', String(seconds))
  return new AppError('RATE_LIMITED', message)
}

/**
 * Charges the synchronous work between a request's hooks (validation, and serialization of the response) and the
 * expected work of the operations that it created. Parsing and the start of the handler are charged where they run.
 */
export function chargeRequests(app: FastifyInstance, use: KeyUse): void {
  app.decorateRequest('cpuSince', 0)
  const begin = (request: FastifyRequest): void => {
    request.cpuSince = threadCpuMs()
  }
  const end = (request: FastifyRequest): void => {
    if (request.cpuSince > 0) use.charge(request.caller, threadCpuMs() - request.cpuSince)
    request.cpuSince = 0
  }
  app.addHook('preValidation', (request, _reply, done) => {
    use.charge(request.caller, REQUEST_MS[request.method === 'GET' ? 'read' : 'change'])
    begin(request)
    done()
  })
  app.addHook('preHandler', (request, _reply, done) => {
    end(request)
    done()
  })
  app.addHook('preSerialization', (request, _reply, payload, done) => {
    begin(request)
    if (request.method !== 'GET') use.charge(request.caller, OPERATION_MS * operationsIn(payload))
    done(null, payload)
  })
  app.addHook('onSend', (request, _reply, payload, done) => {
    end(request)
    done(null, payload)
  })
  app.addHook('onClose', async () => use.stop())
}
