/*
 * Runs durable operations. Any number of runners, in any number of processes, share the one table.
 *
 *   scheduling ──claim──▶ running ──step──▶ running ──last step──▶ finished
 *                            │ ▲              │
 *                            │ └──── retry ◀──┤ transient failure
 *                            └──▶ failure step ◀┘ permanent, overdue, out of attempts, or dependency failed ──▶ failed
 *
 * The claim commits before its step begins. While a step runs, the worker's transaction locks the operation's row. The
 * lock ends with the connection: another worker takes over a dead worker's operations within a second, a frozen
 * worker's after the session time-out.
 */
import { type Backoff, backoffMs } from '../backoff.ts'
import type { Catalog, Transaction } from '../catalog/catalog.ts'
import { createEventLoop } from '../event_loop.ts'
import {
  claim,
  type Due,
  end,
  FAILURE,
  giveUp,
  lockForStep,
  moveTo,
  nextDue,
  retryLater,
  notifyCompleted,
} from './claim.ts'
import { createSleepWatch } from '../machine_sleep.ts'
import { type Definition, OperationFailed, type StepOutcome } from './definition.ts'
import { keepAlive } from './keep_alive.ts'
import { createOversleep } from './oversleep.ts'

export type Moment = 'before' | 'after' | 'moved'

export interface RunnerOptions<Context> {
  readonly catalog: Catalog
  readonly definitions: readonly Definition<Context>[]
  readonly context: Context
  /** The host whose operations it runs, besides those of none. */
  readonly host: string
  /** Maximum number of operations that run at once. */
  readonly concurrency: number
  /**
   * Interval, in milliseconds, between looks for operations of dead workers, which send no notification. All other
   * looks follow a notification or a timer.
   */
  readonly sweepMs?: number
  /** Interval at which the session of a step that works outside the catalog is used. */
  readonly keepAliveMs?: number
  /** Returns for how long this machine has slept since the last call. */
  readonly sleptMs?: () => number
  /** Recognises the errors that mean another worker has taken over: the step's transaction is rolled back. */
  readonly isTakenOver: (error: unknown) => boolean
  /** Called with the attempt after such an error. */
  readonly onTakenOver?: (operation: Due) => Promise<void>
  /** Recognises permanent errors of the backend. */
  readonly isFinal?: (error: unknown) => boolean
  /**
   * Called before and after each step and after its move: for the log, and for tests that kill the worker at that
   * moment.
   */
  readonly onStep?: (operation: Due, moment: Moment) => Promise<void> | void
  readonly onError: (error: unknown, operation?: Due) => void
  /** Called for each operation that this runner ended, as it was at its last step: the failure step if it failed. */
  readonly onEnd?: (operation: Due, status: 'finished' | 'failed') => void
}

export interface Runner {
  /** Claims no more operations. Resolves when the running steps have ended. */
  stop(): Promise<void>
}

const SWEEP_MS = 1000
const FAILURE_TRIES = 5
const SOON_MS = 5
const RETRY: Backoff = { firstMs: 250, maxMs: 15_000, jitter: 0.25 }
/** Characters of an operation's error: it may contain a message of a compute, and the tenant controls its length. */
const MAX_ERROR_CHARACTERS = 2_000

/**
 * Between a claim and its step, and between two steps, the row is unlocked for a moment. A worker that claimed it then
 * would only undo the other's claim, and with many workers an operation could use up its attempts this way.
 */
const LEASE_SECONDS = 1

export async function startRunner<Context>(options: RunnerOptions<Context>): Promise<Runner> {
  const { catalog, concurrency, onError, sweepMs = SWEEP_MS } = options
  const definitions = new Map(options.definitions.map((definition) => [definition.action, definition]))
  const actions = [...definitions.keys()]
  const running = new Map<string, Promise<void>>()
  const unannounced: string[] = []
  let telling: Promise<void> | undefined
  const { sleptMs = createSleepWatch() } = options
  const afterSleep = createOversleep(catalog, options.host, sleptMs, () => [...running.keys()], onError)
  let stopping = false
  let soon: NodeJS.Timeout | undefined

  const loop = createEventLoop({ look: takeAll, onError, retry: { firstMs: sweepMs, maxMs: sweepMs } })

  /**
   * Looks once for all slots that become free together. Operations that waited for an ended one are found at once, by
   * its notification.
   */
  function lookSoon(): void {
    if (running.size === 0) return loop.wake()
    soon ??= setTimeout(() => {
      soon = undefined
      loop.wake()
    }, SOON_MS)
  }

  /** Claims due operations. Returns the milliseconds until the next look. */
  async function takeAll(): Promise<number> {
    await afterSleep()
    while (running.size < concurrency && !stopping) {
      const { due, now } = await claim(
        catalog,
        actions,
        options.host,
        [...running.keys()],
        concurrency - running.size,
        LEASE_SECONDS,
      )
      due.forEach(begin)
      if (due.length > 0) continue
      // `nextDue` counts from `now`, so an operation that became due meanwhile is looked for at once.
      const ms = (await nextDue(catalog, options.host, now)) ?? sweepMs
      return Math.max(0, Math.min(ms, sweepMs))
    }
    return sweepMs
  }

  function begin(due: Due): void {
    const run = drive(due)
      .catch((error: unknown) => onError(error, due))
      .finally(() => {
        running.delete(due.id)
        lookSoon()
      })
    running.set(due.id, run)
  }

  /** Runs step after step until the operation ends, waits, or another worker takes it over. */
  async function drive(due: Due): Promise<void> {
    let last = due
    let current: Due | 'ended' | undefined = due
    while (typeof current === 'object' && !stopping) {
      last = current
      current = await runStep(last)
    }
    if (current !== 'ended') return
    options.onEnd?.(last, last.step === FAILURE ? 'failed' : 'finished')
    await tell(due.id)
  }

  /** Notifies listeners of an end. Ends that occur during a notification are sent together after it. */
  async function tell(id: string): Promise<void> {
    unannounced.push(id)
    telling ??= tellAll().finally(() => (telling = undefined))
    await telling
  }

  async function tellAll(): Promise<void> {
    while (unannounced.length > 0) {
      const ids = unannounced.splice(0)
      // Waiting clients poll when no notification arrives.
      await notifyCompleted(catalog, ids).catch((error: unknown) => onError(error))
    }
  }

  async function runStep(operation: Due): Promise<Due | 'ended' | undefined> {
    const definition = definitions.get(operation.action) as Definition<Context>
    await afterSleep(operation.id)
    try {
      const next = await catalog.transaction(async (tx) => {
        const lock = await lockForStep(tx, operation)
        if (lock === 'taken') return 'taken'
        if (lock === 'overdue') return overdue(tx, operation)
        if (lock !== 'locked') throw new OperationFailed(`dependency failed: ${lock.needs}`)
        await options.onStep?.(operation, 'before')
        const step = stepOf(definition, operation)
        const outcome = await keepAlive(tx, () => step(operation as never, options.context, tx), options.keepAliveMs)
        await options.onStep?.(operation, 'after')
        return move(tx, operation, definition, outcome)
      })
      if (next === 'taken') return undefined
      await options.onStep?.(operation, 'moved')
      return next
    } catch (error) {
      if (options.isTakenOver(error)) {
        await options.onTakenOver?.(operation)
        return undefined
      }
      onError(error, operation)
      return catalog.transaction((tx) => failed(tx, operation, error))
    }
  }

  function overdue(tx: Transaction, operation: Due): 'ended' {
    if (operation.step === FAILURE) return end(tx, operation.id, 'failed', operation.error)
    const last = operation.error ? `; last: ${operation.error}` : ''
    throw new OperationFailed(`not done within ${operation.deadline_seconds} s; stopped at ${operation.step}${last}`)
  }

  function move(
    tx: Transaction,
    operation: Due,
    definition: Definition<Context>,
    outcome: StepOutcome | void,
  ): Due | 'ended' | undefined {
    if (outcome && 'wait' in outcome) {
      const now = outcome.wait === 0
      const seconds = now ? LEASE_SECONDS : outcome.wait
      moveTo(tx, operation.id, operation.step, seconds, now ? 1 : 0, outcome.reason, outcome.advances)
      return now ? operation : undefined
    }
    if (operation.step === FAILURE) return end(tx, operation.id, 'failed', operation.error)
    const names = Object.keys(definition.steps)
    const next = outcome && 'goto' in outcome ? outcome.goto : names[names.indexOf(operation.step) + 1]
    if (next === undefined || (outcome && 'done' in outcome)) return end(tx, operation.id, 'finished', null)
    moveTo(tx, operation.id, next, LEASE_SECONDS, 1)
    return { ...operation, step: next, attempts: 1 }
  }

  async function failed(tx: Transaction, operation: Due, error: unknown): Promise<Due | 'ended' | undefined> {
    if ((await lockForStep(tx, operation)) === 'taken') return undefined
    const message = (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_CHARACTERS)
    if (operation.step === FAILURE) {
      if (operation.attempts >= FAILURE_TRIES) return end(tx, operation.id, 'failed', operation.error)
      return retryLater(tx, operation.id, retrySeconds(operation.attempts), operation.error ?? message)
    }
    if (error instanceof OperationFailed || options.isFinal?.(error)) {
      giveUp(tx, operation.id, message, LEASE_SECONDS)
      return { ...operation, step: FAILURE, attempts: 1, error: message, cause: error }
    }
    return retryLater(tx, operation.id, retrySeconds(operation.failures_count + 1), message)
  }

  const unlisten = await catalog.listen('operation_due', loop.wake)
  loop.wake()

  return {
    async stop() {
      stopping = true
      unlisten()
      await loop.stop()
      clearTimeout(soon)
      await Promise.all(running.values())
    },
  }
}

function stepOf<Context>(definition: Definition<Context>, operation: Due) {
  const step = operation.step === FAILURE ? definition.onFailure : definition.steps[operation.step]
  if (!step) throw new OperationFailed(`${operation.action} has no step ${operation.step}`)
  return step
}

const retrySeconds = (failures: number): number => backoffMs(failures, RETRY) / 1000
