import type { Db } from '../catalog/catalog.ts'

/** What a step says when it is done; nothing means: go on to the next step. */
export type StepOutcome =
  | { readonly wait: number; readonly reason: string }
  | { readonly goto: string }
  | { readonly done: true }

/** Run the same step again after so many seconds; 0 means at once. Not a failure. */
export const wait = (seconds: number, reason: string): StepOutcome => ({ wait: seconds, reason })
export const goto = (step: string): StepOutcome => ({ goto: step })
export const done: StepOutcome = { done: true }

/** A failure that trying again will not mend: the operation fails now, with this message for people. */
export class OperationFailed extends Error {
  override readonly name = 'OperationFailed'
}

/** An operation while one of its steps runs. `seq` and `generation` together fence its effects outside the catalog. */
export interface Claimed<Input = unknown> {
  readonly id: string
  readonly project_id: string
  readonly branch_id: string | null
  readonly endpoint_id: string | null
  readonly action: string
  readonly input: Input
  readonly seq: number
  readonly generation: number
  readonly step: string
  readonly error: string | null
}

/**
 * One named step. It may run again after a crash at any point and must end in the same state; it lasts five seconds at
 * most; its work outside the catalog comes first, its writes through `tx` last: they commit with the move to the next step.
 */
export type Step<Context, Input> = (operation: Claimed<Input>, context: Context, tx: Db) => Promise<StepOutcome | void>

/** One action: what it locks, how long it may take, its steps in order, and what makes the state honest when it fails. */
export interface Definition<Context = never, Input = never> {
  readonly action: string
  /** Seconds from when it may begin until it is failed. */
  readonly deadlineSeconds: number
  readonly steps: Readonly<Record<string, Step<Context, Input>>>
  readonly onFailure: Step<Context, Input>
}
