import type { Fence, Progress } from '../host/fence.ts'
import type { ServerSize } from '../postgres/settings.ts'
import type { StoreRef } from '../storage/storage.ts'
import type { Wall } from '../walls.ts'

/** The configuration of a compute. */
export interface ComputeSpec extends ServerSize {
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

/**
 * Runs the computes of one host. An implementation knows no table and no HTTP.
 *
 * Calls converge: each may be repeated after a crash at any point, by any worker of the host, and ends in the same
 * state.
 */
export interface Computes {
  /** Starts or finds the compute on a store. Returns when it accepts connections, or `pending` while it recovers. */
  start(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<RunningCompute | 'pending'>
  /** Writes another configuration for the compute on a store, which applies at its next reload or start. */
  configure(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<void>
  /** Stops the compute on a store cleanly: open sessions end with 57P01, memory is written to disk. */
  stop(store: StoreRef, fence: Fence): Promise<Progress>
  /** The compute that runs on a store, if there is one. Asks the kernel, never relies on a file alone. */
  find(store: StoreRef): Promise<RunningCompute | undefined>
  /** Whether a server of an earlier Neap, from before computes had walls, runs on a store: it can only be stopped. */
  hasEarlierServer(store: StoreRef): Promise<boolean>
  /** Calls `ended` with the id of a followed compute when it has ended, for any reason. */
  watch(ended: (id: string) => void): ComputeWatch
  /** The last errors that Postgres logged about its own end since a time, in one line; empty when there are none. */
  lastWords(store: StoreRef, since: Date): Promise<string>
  /**
   * The ids of all stores on which a compute may run, by one look at the machine; only `find` is certain.
   */
  listRunning(): Promise<string[]>
  /** The walls that stand around each compute. */
  walls(): Promise<readonly Wall[]>
  /** Why computes with egress enabled cannot have it, and the remedy; undefined when they can. */
  whyNoEgress(): Promise<string | undefined>
  /** Rotates the logs that have grown large; for a timer. */
  rotateLogs(): Promise<void>
}
