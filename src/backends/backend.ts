/**
 * The one interface behind which branches are stored and computes run.
 * Whoever implements it knows no table and no HTTP; whoever calls it does not know which one it is.
 *
 * Calls converge: each may be repeated after a crash at any point, by any worker, and ends in the same state.
 * A call that may take long returns `pending` after at most about four seconds and is simply called again.
 */

import type { Wall } from '../walls.ts'

/** A branch as a backend sees it. `number` is unique for ever within one catalog: a backend may derive a uid from it. */
export interface BranchRef {
  readonly id: string
  readonly number: number
  readonly pgVersion: number
}

/**
 * Says which attempt acts: the operation's `seq` in its project, then how often that operation was claimed.
 * It only ever rises for one branch; an effect that carries a lower fence than the branch has seen is refused with `FencedError`.
 */
export interface Fence {
  readonly seq: number
  readonly generation: number
}

/** Thrown when a newer attempt has taken the branch over. The caller drops what it was doing. */
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

/** What a compute is to be configured for. */
export interface ComputeSpec {
  readonly cpuCount: number
  readonly memoryMib: number
  readonly pgSettings: Readonly<Record<string, string>>
  /** Whether it may reach public addresses and the installation's named networks. Holds from its start on. */
  readonly egress: boolean
}

/** Where a compute answers, as libpq takes it: `host` is an address, or a socket directory that begins with a slash. */
export interface ComputeAddress {
  readonly host: string
  readonly port: number
  /** Which store it serves: by it the passwords of Neap's own roles there are derived. */
  readonly store: string
}

/** A compute that runs. */
export interface RunningCompute {
  readonly branchId: string
  readonly address: ComputeAddress
  readonly pid: number
  readonly startedAt: Date
}

/** Watches the processes of computes. */
export interface ComputeWatch {
  /** Tells once of this process when it has ended, at once if it has already. */
  follow(pid: number): void
  stop(): void
}

export type Progress = 'done' | 'pending'

export interface Backend {
  /** Makes ready what new branches of that Postgres version are cloned from. */
  prepare(pgVersion: number): Promise<void>
  /** Makes the data directory of a new project's first branch. */
  createBranch(branch: BranchRef, fence: Fence): Promise<Progress>
  /** Makes the data directory of a branch as a clone of its parent, which may run or rest. */
  cloneBranch(branch: BranchRef, parent: BranchRef, fence: Fence): Promise<Progress>
  /** Starts the compute of a branch, or finds it running; returns when it accepts connections, or `pending` while it recovers. */
  startCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<RunningCompute | 'pending'>
  /** Gives the compute of a branch another configuration; it follows it when it reloads, or starts, the next time. */
  configureCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<void>
  /** Stops the compute of a branch cleanly: open sessions end with 57P01, memory is written out. */
  stopCompute(branch: BranchRef, fence: Fence): Promise<Progress>
  /** The running compute of a branch, if there is one. Asks the kernel, never a file alone. */
  findCompute(branch: BranchRef): Promise<RunningCompute | undefined>
  /** Whether a server runs on a branch that an earlier Neap started, before computes had walls: it can only be stopped. */
  hasEarlierServer(branch: BranchRef): Promise<boolean>
  /** Tells of the computes that are followed when they have ended, whatever ended them. */
  watchComputes(ended: (pid: number) => void): ComputeWatch
  /** What a compute said of its end, if it did: the last complaints of Postgres itself since a time, in one line. */
  lastWords(branch: BranchRef, since: Date): Promise<string>
  /** Stops what runs on a branch and removes everything that is stored of it. */
  removeBranch(branch: BranchRef, fence: Fence): Promise<Progress>
  /** The ids of all branches of which anything is stored here. */
  listBranches(): Promise<string[]>
  /** The ids of all branches on which a compute may run, as far as one look at the machine tells; `findCompute` says for sure. */
  listRunning(): Promise<string[]>
  /** The major versions of Postgres that computes can have, oldest first: those that are installed. */
  pgVersions(): Promise<number[]>
  /** The walls that stand around each compute. */
  walls(): Promise<readonly Wall[]>
  /** Why computes that may reach out cannot, and what to do about it; undefined where they can. */
  whyNoEgress(): Promise<string | undefined>
  /** Ends helpers that this backend has running (copies); what they made is made anew. For a shutdown. */
  stopHelpers(): Promise<void>
}
