import type { Db } from '../catalog/catalog.ts'

/** Outcome of a step. A step that returns undefined moves on to the next step. */
export type StepOutcome =
  | { readonly wait: number; readonly reason: string; readonly until?: Promise<unknown>; readonly advances?: true }
  | { readonly goto: string }
  | { readonly done: true }

/** Runs the same step again after `seconds`; 0 means in its turn. Does not count as a failure. */
export const wait = (seconds: number, reason: string): StepOutcome => ({ wait: seconds, reason })
/**
 * Runs the same step again once the promise has settled, or after a few seconds. Meanwhile the operation has no
 * transaction and, unless it copies, no place of its worker (lanes.ts). A rejection counts as settled: the step finds
 * the cause itself.
 */
export const waitUntil = (until: Promise<unknown>, reason: string) => ({
  wait: 0,
  reason,
  until: until.catch(() => undefined),
})
/**
 * As `waitUntil`, for work that Neap only watches: each change of `progress` puts off the operation's deadline, so that
 * only work that stands still becomes overdue.
 */
export const watching = (until: Promise<unknown>, progress: string): StepOutcome => ({
  ...waitUntil(until, progress),
  advances: true,
})
export const goto = (step: string): StepOutcome => ({ goto: step })
export const done: StepOutcome = { done: true }

/** A permanent failure: the operation fails without a retry. Users see the message. */
export class OperationFailed extends Error {
  override readonly name = 'OperationFailed'
}

/** An operation while one of its steps runs. `epoch`, `seq` and `generation` fence its effects outside the catalog. */
export interface Claimed<Input = unknown> {
  readonly id: string
  readonly account_id: string
  readonly project_id: string
  readonly branch_id: string | null
  readonly endpoint_id: string | null
  readonly action: string
  readonly input: Input
  /** The catalog's at the claim. */
  readonly epoch: number
  readonly seq: number
  readonly generation: number
  readonly step: string
  readonly error: string | null
}

/**
 * One named step. It may run again after a crash at any point and must end in the same state. It lasts five seconds at
 * most. Its effects outside the catalog come first, its writes through `tx` last: they commit with the move to the next
 * step.
 */
export type Step<Context, Input> = (operation: Claimed<Input>, context: Context, tx: Db) => Promise<StepOutcome | void>

/**
 * Operations of one lane never wait for a worker that is busy with those of another: starts, for which clients wait;
 * suspends, for which the next starts wait; copies, of which a worker makes a limited number at once; and the others.
 */
export type LaneName = 'start' | 'suspend' | 'copy' | 'work'

/**
 * One action: its deadline, its steps in order, and `onFailure`, which makes the recorded state match the actual one.
 */
export interface Definition<Context = never, Input = never> {
  readonly action: string
  /** `work` unless given. */
  readonly lane?: LaneName
  /** Seconds from the first claim, or the last progress of work that it watches, until it fails as overdue. */
  readonly deadlineSeconds: number
  readonly steps: Readonly<Record<string, Step<Context, Input>>>
  readonly onFailure: Step<Context, Input>
}
