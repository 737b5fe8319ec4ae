import type { OfferedExtension } from '../postgres/extensions.ts'
import type { Fence, Progress } from '../host/fence.ts'
import type { CloneMode } from './report.ts'

/** A store for its host. `number` is unique for ever within one catalog. */
export interface StoreRef {
  readonly id: string
  readonly number: number
  /** The uid, and gid, that own its files and run its server; null until it has one, and where Neap is not root. */
  readonly uid: number | null
  readonly pgVersion: number
}

/** The size of a store in bytes. */
export interface StoreSize {
  /** Of all its files. */
  readonly bytes: number
  /** Of all its files but WAL and the temporary files of queries. */
  readonly logicalBytes: number
  /** Whether they are all: too many are not counted to the end. */
  readonly isWhole: boolean
}

/** The copies that this process waits for, and their bytes as far as those are counted. */
export interface RunningCopies {
  readonly count: number
  readonly copiedBytes: number
  readonly leftBytes: number
}

/**
 * Makes, clones and removes the stores of one host. An implementation knows no table and no HTTP.
 *
 * Calls converge: each may be repeated after a crash at any point, by any worker of the host, and ends in the same
 * state.
 */
export interface Storage {
  /** Prepares the template that new stores of that Postgres version are cloned from. */
  prepare(pgVersion: number): Promise<void>
  /** Makes a store from the template of its Postgres version. */
  create(store: StoreRef, fence: Fence): Promise<Progress>
  /** Makes a store as a clone of its parent, whose compute may run or not. */
  clone(store: StoreRef, parent: StoreRef, fence: Fence): Promise<Progress>
  /** Resolves when no copy is being made into a store, at the latest after a few seconds. */
  filled(store: Pick<StoreRef, 'id'>): Promise<void>
  /** How far the copy into a store is, for its owner; undefined while that is not known. */
  readProgress(store: Pick<StoreRef, 'id'>): Promise<string | undefined>
  /** The copies that this process waits for. */
  runningCopies(): Promise<RunningCopies>
  /** Stops the compute on a store and removes all its data. */
  remove(store: StoreRef, fence: Fence): Promise<Progress>
  /** Measures a store's files, for three seconds at most. */
  measure(store: Pick<StoreRef, 'id'>): Promise<StoreSize>
  /** Up to where the WAL of a store was written at its latest checkpoint ("0/3000028"). Errors: the system's. */
  walPosition(store: Pick<StoreRef, 'id'>): Promise<string>
  /** The bytes of WAL that a clone of a running parent replays at its first start; 0 after it, and of other stores. */
  replayBytes(store: Pick<StoreRef, 'id'>): Promise<number>
  /** The ids of all stores here. */
  list(): Promise<string[]>
  /** Calls `visit` with the ids of all stores, a batch at a time. One that is being removed may come twice. */
  visit(visit: (ids: string[]) => Promise<void>): Promise<void>
  /** The uid that owns the files of a store; undefined when it has none. */
  ownerOf(store: Pick<StoreRef, 'id'>): Promise<number | undefined>
  /** Whether clones share their blocks with their parents, and where. */
  cloneMode(): Promise<CloneMode>
  /** The installed major versions of Postgres, oldest first. */
  pgVersions(): Promise<number[]>
  /** The extensions that tenants may create in an installed version. */
  extensions(pgVersion: number): Promise<OfferedExtension[]>
  /** Removes files that removals of stores have left and that are not needed any more. */
  tidy(): Promise<void>
  /** Ends running copies for a shutdown; a later call repeats their work. */
  stopCopies(): Promise<void>
}
