/**
 * The interface that stores branches and runs computes.
 * An implementation knows no table and no HTTP; a caller does not know the implementation.
 *
 * Calls converge: each may be repeated after a crash at any point, by any worker, and ends in the same state.
 * A call that may take long returns `pending` after at most about four seconds; the caller repeats it.
 */

import type { Wall } from '../walls.ts'

/** A branch for a backend. `number` is unique for ever within one catalog: a backend may derive a uid from it. */
export interface BranchRef {
  readonly id: string
  readonly number: number
  readonly pgVersion: number
}

/**
 * Identifies the attempt that acts: the operation's `seq` in its project, then the number of claims of that operation.
 * It only rises for one branch; an effect with a lower fence than the branch has seen is refused with `FencedError`.
 */
export interface Fence {
  readonly seq: number
  readonly generation: number
}

/** Thrown when a newer attempt has taken the branch over. The caller abandons its attempt. */
export class FencedError extends Error {
  override readonly name = 'FencedError'
}

/** Postgres refuses the settings that it was given: the same start will fail again. */
export class ConfigurationError extends Error {
  override readonly name: string = 'ConfigurationError'
}

/** The passwords of a store are under a key that is not in the key file, and may still exist somewhere. */
export class UnknownKeyError extends ConfigurationError {
  override readonly name = 'UnknownKeyError'
}

/** The configuration of a compute. */
export interface ComputeSpec {
  readonly cpuCount: number
  readonly memoryMib: number
  readonly pgSettings: Readonly<Record<string, string>>
  /** Whether it may reach public addresses and the installation's named networks. Holds from its start on. */
  readonly egress: boolean
}

/** A compute's address, as libpq takes it: `host` is an address, or a socket directory that begins with a slash. */
export interface ComputeAddress {
  readonly host: string
  readonly port: number
  /** The store that it serves; the passwords of Neap's own roles there derive from it. */
  readonly store: string
}

/** A compute that runs. */
export interface RunningCompute {
  /** The instance: another start on the same store has another id. */
  readonly id: string
  readonly hostId: string
  readonly address: ComputeAddress
  readonly startedAt: Date
}

/** Watches computes for their end. */
export interface ComputeWatch {
  /** Reports this compute once when it has ended, at once if it has already. */
  follow(compute: { readonly id: string; readonly storeId: string }): void
  stop(): void
}

export type Progress = 'done' | 'pending'

export interface Backend {
  /** Prepares the template that new branches of that Postgres version are cloned from. */
  prepare(pgVersion: number): Promise<void>
  /** Creates the data directory of a new project's first branch. */
  createBranch(branch: BranchRef, fence: Fence): Promise<Progress>
  /** Creates the data directory of a branch as a clone of its parent, whose compute may run or not. */
  cloneBranch(branch: BranchRef, parent: BranchRef, fence: Fence): Promise<Progress>
  /** Starts or finds a branch's compute. Returns when it accepts connections, or `pending` while it recovers. */
  startCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<RunningCompute | 'pending'>
  /** Writes another configuration for the compute of a branch, which applies at its next reload or start. */
  configureCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<void>
  /** Stops the compute of a branch cleanly: open sessions end with 57P01, memory is written to disk. */
  stopCompute(branch: BranchRef, fence: Fence): Promise<Progress>
  /** The running compute of a branch, if there is one. Asks the kernel, never relies on a file alone. */
  findCompute(branch: BranchRef): Promise<RunningCompute | undefined>
  /** Whether a server of an earlier Neap, from before computes had walls, runs on a branch: it can only be stopped. */
  hasEarlierServer(branch: BranchRef): Promise<boolean>
  /** Calls `ended` when a followed compute has ended, for any reason. */
  watchComputes(ended: (id: string) => void): ComputeWatch
  /** The last errors that Postgres logged about its own end since a time, in one line; empty when there are none. */
  lastWords(branch: BranchRef, since: Date): Promise<string>
  /** Stops the compute of a branch and removes all its stored data. */
  removeBranch(branch: BranchRef, fence: Fence): Promise<Progress>
  /** The bytes of the files of a branch's data; undefined when they cannot be counted within three seconds. */
  measureBranch(branch: Pick<BranchRef, 'id'>): Promise<number | undefined>
  /** The ids of all branches with stored data here. */
  listBranches(): Promise<string[]>
  /**
   * The ids of all branches that may have a running compute, by one look at the machine; only `findCompute` is certain.
   */
  listRunning(): Promise<string[]>
  /** The installed major versions of Postgres that computes can have, oldest first. */
  pgVersions(): Promise<number[]>
  /** The walls that stand around each compute. */
  walls(): Promise<readonly Wall[]>
  /** Why computes with egress enabled cannot have it, and the remedy; undefined when they can. */
  whyNoEgress(): Promise<string | undefined>
  /** Ends this backend's running helpers (copies) for a shutdown; a later call repeats their work. */
  stopHelpers(): Promise<void>
}
