import type { Fence, Progress } from '../host/fence.ts'
import type { ServerSize, SizeRange } from '../postgres/settings.ts'
import type { StoreRef } from '../storage/storage.ts'
import type { Wall } from '../walls.ts'

/** The size of a compute now, in CU, from `minCu` to `maxCu`. */
export interface CurrentSize extends SizeRange {
  readonly cu: number
  /** The size by which its memory is limited, if that is another: it is lowered later than its CPUs. */
  readonly memoryCu?: number
}

/** The configuration of a compute. */
export interface ComputeSpec extends ServerSize, CurrentSize {
  /** Whether it may reach public addresses and the installation's named networks. Holds from its start on. */
  readonly egress: boolean
  /** Whether it serves clients: reading blocks ahead would be lost on others. */
  readonly serves: boolean
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

/** A compute that was to be started. */
export interface StartedCompute extends RunningCompute {
  /** Whether this call started it: one that it found may have ceased to answer since. */
  readonly isNew: boolean
}

/** The use of resources by a compute since its start. */
export interface ResourceUse {
  readonly cpuMicroseconds: number
  /** Periods of 100 ms in which it ran, and those in which its limit stopped it. */
  readonly periods: number
  readonly throttledPeriods: number
  /** Memory that cannot be reclaimed. */
  readonly anonBytes: number
  readonly cacheBytes: number
  /** Pages of its working set that were evicted and read again. */
  readonly refaults: number
  /** Time for which a process of it waited for memory; undefined where the kernel does not measure it. */
  readonly memoryStallMicroseconds: number | undefined
}

/** The memory of all computes of a host, in bytes: held, and as page cache of their files. */
export type ComputeMemory = Pick<ResourceUse, 'anonBytes' | 'cacheBytes'>

/** How much CPU the processes of a compute asked for. */
export interface CpuDemand {
  /** The microseconds for which each process that was read ran or waited for a CPU, by pid. */
  readonly byPid: ReadonlyMap<number, number>
  /** A power of two: of many processes only those were read whose pid is a multiple of it. */
  readonly stride: number
}

/** Watches computes for their end, and keeps their logs small. */
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
  /**
   * Starts or finds the compute on a store. Returns when it accepts connections, or `pending`: see `readProgress`.
   */
  start(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<StartedCompute | 'pending'>
  /** What a compute does before it accepts connections, for its owner: the text changes as it advances. */
  readProgress(store: StoreRef): Promise<string>
  /** Writes another configuration for the compute on a store, which applies at its next reload or start. */
  configure(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<void>
  /**
   * Holds a running compute to its size, from now on: a start does not. Returns undefined, or the reason why it is not
   * held to it.
   */
  resize(computeId: string, size: CurrentSize): Promise<string | undefined>
  /**
   * Gives a running compute its share of the CPUs where they are short: by its size, or eight times that if it comes
   * first, as it does from its start on. Errors: the system's, when it has ended.
   */
  weigh(computeId: string, share: { readonly cu: number; readonly comesFirst: boolean }): Promise<void>
  /** The CPU time that a running compute has used, in microseconds. Errors: as `weigh`. */
  readCpuTime(computeId: string): Promise<number>
  /** The CPU time that all computes of this host have used, ended ones too, in microseconds: one reading. */
  readTotalCpuTime(): Promise<number>
  /** What a running compute that is held to its size has used. Errors: the system's, when it has ended. */
  readUse(computeId: string): Promise<ResourceUse>
  /** The memory of all computes, by one reading; undefined where they are not held to their sizes. */
  readMemory(): Promise<ComputeMemory | undefined>
  /** Errors: as `readUse`. */
  readDemand(computeId: string): Promise<CpuDemand>
  /** Stops the compute on a store cleanly: open sessions end with 57P01, memory is written to disk. */
  stop(store: StoreRef, fence: Fence): Promise<Progress>
  /** Resolves when the compute on a store accepts connections or has ended, at the latest after a few seconds. */
  settled(store: StoreRef): Promise<void>
  /** The compute that runs on a store, if there is one. Asks the kernel, never relies on a file alone. */
  find(store: StoreRef): Promise<RunningCompute | undefined>
  /** Whether a server of an earlier Neap, from before computes had walls, runs on a store: it can only be stopped. */
  hasEarlierServer(store: StoreRef): Promise<boolean>
  /** Calls `ended` with the id of a followed compute when it has ended, for any reason. */
  watch(ended: (id: string) => void): ComputeWatch
  /**
   * Why a compute ended, in one line: a restart of the machine, its memory limit, and the last errors that Postgres
   * logged about its own end since its start. Empty when there is no such sign.
   */
  lastWords(store: StoreRef, compute: { readonly id: string; readonly startedAt: Date }): Promise<string>
  /** Whether a server has a store, by the kernel's lock: also one that `find` does not know. */
  isTaken(store: Pick<StoreRef, 'id'>): Promise<boolean>
  /**
   * The ids of all stores on which a compute may run, by one look at the machine; only `isTaken` is certain. Stores
   * whose files are being copied or measured are among them.
   */
  listRunning(): Promise<string[]>
  /** The walls that stand around each compute. */
  walls(): Promise<readonly Wall[]>
  /** Why computes are not held to their sizes, and the remedy; undefined when they are. */
  whyNoLimits(): Promise<string | undefined>
  /** Why computes with egress enabled cannot have it, and the remedy; undefined when they can. */
  whyNoEgress(): Promise<string | undefined>
  /**
   * Runs `work` beside a server on a data directory that was fetched into `home`, which no client can reach, and ends
   * the server. Errors: it does not recover; those of `work`, and of `signal`.
   */
  runDrill<T>(
    store: StoreRef,
    home: string,
    signal: AbortSignal,
    work: (address: ComputeAddress) => Promise<T>,
  ): Promise<T>
  /** Ends the server of `runDrill` on a directory, if one runs. */
  endDrillServer(home: string): Promise<void>
  /** Removes what ended computes have left; for a timer. */
  tidy(): Promise<void>
  /** Removes what computes needed on this host beside their data, unless some run: when Neap ends. */
  leave(): Promise<void>
}
