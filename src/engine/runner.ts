/*
 * Runs durable operations. Any number of runners, in any number of processes, share the one table.
 *
 *   scheduling ──claim──▶ running ──step──▶ running ──last step──▶ finished
 *                            │ ▲              │
 *                            │ └──── retry ◀──┤ transient failure
 *                            └──▶ failure step ◀┘ permanent, overdue, out of attempts, or dependency failed ──▶ failed
 *
 * The claim commits before its step begins. While a step runs, the worker's transaction locks the operation's row. The
 * lock ends with the connection: another worker takes over a dead worker's operations within a second, those that it
 * had parked (lanes.ts) within seconds, a frozen worker's after the session time-out.
 */
import { type Backoff, backoffMs } from '../backoff.ts'
import type { Catalog, Transaction } from '../catalog/catalog.ts'
import { createEventLoop } from '../event_loop.ts'
import { withTimeout } from '../race.ts'
import {
  claim,
  type Due,
  end,
  FAILURE,
  giveUp,
  lockForStep,
  moveTo,
  nextDue,
  release,
  retryLater,
  notifyCompleted,
} from './claim.ts'
import { createSleepWatch } from '../machine_sleep.ts'
import { type Definition, type LaneName, OperationFailed, type StepOutcome } from './definition.ts'
import { keepAlive } from './keep_alive.ts'
import { createLane, type OperationLane } from './lanes.ts'
import { createOversleep } from './oversleep.ts'

export type Moment = 'before' | 'after' | 'moved'

export interface RunnerOptions<Context> {
  readonly catalog: Catalog
  readonly definitions: readonly Definition<Context>[]
  readonly context: Context
  /** The host whose operations it runs, besides those without a host. */
  readonly host: string
  /** Maximum number of operations that run at once in each lane. */
  readonly concurrency: number
  /** How many copies are made at once; `concurrency` unless given. */
  readonly copies?: number
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
/** A parked operation runs its step again after so long at the latest; other workers skip it for a little longer. */
const PARKED_MS = 5_000
const PARKED_LEASE_SECONDS = 7

interface Waiting {
  readonly operation: Due
  readonly until: Promise<unknown>
}

/** After a step: the operation at its next one, its end, or the promise that it waits for; undefined: a later claim. */
type Next = Due | Waiting | 'ended' | undefined

export async function startRunner<Context>(options: RunnerOptions<Context>): Promise<Runner> {
  const { catalog, onError, sweepMs = SWEEP_MS } = options
  const definitions = new Map(options.definitions.map((definition) => [definition.action, definition]))
  const lanes = lanesOf(options)
  const running = new Map<string, Promise<void>>()
  const unnotified: string[] = []
  let notifying: Promise<void> | undefined
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

  /** Resumes settled operations and claims due ones. Returns the milliseconds until the next look. */
  async function takeAll(): Promise<number> {
    await afterSleep()
    while (!stopping) {
      for (const lane of lanes) for (let next; (next = lane.resume());) begin(lane, next)
      const vacancies = lanes.flatMap((lane) => lane.vacancy() ?? [])
      if (vacancies.length === 0) break
      const driven = lanes.flatMap((lane) => lane.driven())
      const { due, now } = await claim(catalog, vacancies, options.host, driven, LEASE_SECONDS)
      for (const each of due) begin(laneOf(each), each)
      if (due.length > 0) continue
      // `nextDue` counts from `now`, so an operation that became due meanwhile is looked for at once.
      const actions = vacancies.flatMap((vacancy) => vacancy.actions)
      const ms = (await nextDue(catalog, actions, options.host, now)) ?? sweepMs
      return Math.max(0, Math.min(ms, sweepMs))
    }
    return sweepMs
  }

  const laneOf = ({ action }: Due): OperationLane => lanes.find((lane) => lane.has(action)) as OperationLane

  function begin(lane: OperationLane, due: Due): void {
    lane.begin(due)
    const run = drive(due)
      .catch((error: unknown) => onError(error, due))
      .then((waits) => {
        running.delete(due.id)
        if (waits) park(lane, waits)
        else lane.leave(due)
        lookSoon()
      })
    running.set(due.id, run)
  }

  /** Keeps an operation without a transaction until its promise has settled; then its step runs again. */
  function park(lane: OperationLane, { operation, until }: Waiting): void {
    lane.park(operation)
    void withTimeout(until, PARKED_MS, undefined).then(() => {
      lane.settle(operation)
      loop.wake()
    })
  }

  /**
   * Runs step after step until the operation ends, waits, or another worker takes it over.
   * @returns the operation and the promise that it waits for, if it does
   */
  async function drive(due: Due): Promise<Waiting | undefined> {
    let last = due
    let next: Next = due
    while (next && typeof next === 'object' && 'step' in next && !stopping) {
      last = next
      next = await runStep(last)
    }
    if (next && typeof next === 'object') return 'until' in next ? next : undefined
    if (next !== 'ended') return undefined
    options.onEnd?.(last, last.step === FAILURE ? 'failed' : 'finished')
    await notifyEnd(due.id)
    return undefined
  }

  /** Notifies listeners of an end. Ends that occur during a notification are sent together after it. */
  async function notifyEnd(id: string): Promise<void> {
    unnotified.push(id)
    notifying ??= notifyAll().finally(() => (notifying = undefined))
    await notifying
  }

  async function notifyAll(): Promise<void> {
    while (unnotified.length > 0) {
      const ids = unnotified.splice(0)
      // Waiting clients poll when no notification arrives.
      await notifyCompleted(catalog, ids).catch((error: unknown) => onError(error))
    }
  }

  async function runStep(operation: Due): Promise<Next> {
    const definition = definitions.get(operation.action) as Definition<Context>
    await afterSleep(operation.id)
    try {
      const next = await catalog.transaction(async (tx) => {
        const lock = await lockForStep(tx, operation)
        if (lock === 'taken') return 'taken'
        if (lock === 'overdue') return overdue(tx, operation)
        if (lock !== 'locked') throw new OperationFailed(`dependency failed: ${lock.failedDependency}`)
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

  function move(tx: Transaction, operation: Due, definition: Definition<Context>, outcome: StepOutcome | void): Next {
    if (outcome && 'wait' in outcome) {
      const { until, reason, advances } = outcome
      const [seconds, attempts] = until ? [PARKED_LEASE_SECONDS, 1] : [outcome.wait, 0]
      moveTo(tx, operation.id, operation.step, { seconds, attempts, reason, advances: advances ?? false })
      return until && { operation, until }
    }
    if (operation.step === FAILURE) return end(tx, operation.id, 'failed', operation.error)
    const names = Object.keys(definition.steps)
    const next = outcome && 'goto' in outcome ? outcome.goto : names[names.indexOf(operation.step) + 1]
    if (next === undefined || (outcome && 'done' in outcome)) return end(tx, operation.id, 'finished', null)
    moveTo(tx, operation.id, next, { seconds: LEASE_SECONDS, attempts: 1 })
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
      await Promise.all(running.values())
      clearTimeout(soon)
      const parked = lanes.flatMap((lane) => lane.driven())
      if (parked.length > 0) await release(catalog, parked).catch((error: unknown) => onError(error))
    },
  }
}

/** The lanes that these actions need, in the order in which their operations are claimed. */
function lanesOf<Context>({ definitions, concurrency, copies = concurrency }: RunnerOptions<Context>): OperationLane[] {
  const names: readonly LaneName[] = ['start', 'suspend', 'work', 'copy']
  return names
    .map((name) => ({
      name,
      actions: definitions.filter(({ lane = 'work' }) => lane === name).map(({ action }) => action),
      places: name === 'copy' ? copies : concurrency,
    }))
    .filter(({ actions }) => actions.length > 0)
    .map(createLane)
}

function stepOf<Context>(definition: Definition<Context>, operation: Due) {
  const step = operation.step === FAILURE ? definition.onFailure : definition.steps[operation.step]
  if (!step) throw new OperationFailed(`${operation.action} has no step ${operation.step}`)
  return step
}

const retrySeconds = (failures: number): number => backoffMs(failures, RETRY) / 1000
