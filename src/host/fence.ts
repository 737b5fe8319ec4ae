/**
 * Identifies the attempt that acts: the epoch of the catalog, the operation's `seq` in its project, then the number of
 * claims of that operation. It only rises for one store; an effect with a lower fence than the store has seen is
 * refused with `FencedError`.
 */
export interface Fence {
  /** Raised when the catalog is found to be older than a disk: all fences there have a lower one. */
  readonly epoch: number
  readonly seq: number
  readonly generation: number
}

/** Thrown when a newer attempt has taken the store over. The caller abandons its attempt. */
export class FencedError extends Error {
  override readonly name = 'FencedError'
}

/** Result of a call that may take long: `pending` after some seconds at most; the caller repeats the call. */
export type Progress = 'done' | 'pending'
