/**
 * Identifies the attempt that acts: the operation's `seq` in its project, then the number of claims of that operation.
 * It only rises for one store; an effect with a lower fence than the store has seen is refused with `FencedError`.
 */
export interface Fence {
  readonly seq: number
  readonly generation: number
}

/** Thrown when a newer attempt has taken the store over. The caller abandons its attempt. */
export class FencedError extends Error {
  override readonly name = 'FencedError'
}

/** Result of a call that may take long: `pending` after at most about four seconds; the caller repeats the call. */
export type Progress = 'done' | 'pending'
