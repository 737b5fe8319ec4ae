import type { OfferedExtension } from '../postgres/extensions.ts'
import type { Fence, Progress } from '../host/fence.ts'
import type { MadeBase } from './base.ts'
import type { ReplayTarget } from './replay.ts'
import type { TendedImage } from './image/tend.ts'
import type { CloneMode } from './report.ts'
import type { MeasuredSpace, StoresOfProject } from './space.ts'
import type { WantedSpares } from './tend_spares.ts'
import type { ArchivedWal } from './wal_archive.ts'

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

/** A part of the history of a store: a base, or all of them, and the WAL from one segment on and before another. */
export interface HistoryPart {
  readonly base: number | 'all' | undefined
  readonly from: string | undefined
  readonly before: string | undefined
}

/** The copies that this process waits for, and their bytes as far as those are counted. */
export interface RunningCopies {
  readonly count: number
  readonly copiedBytes: number
  readonly leftBytes: number
}

/** How a store at a moment is made: of a base, and the WAL from there on. */
export interface Restoration {
  readonly target: ReplayTarget
  /** A base of one of the stores; undefined: their template. */
  readonly base: { readonly storeId: string; readonly number: number } | undefined
  /** The stores with the WAL, the latest first, and the segment with which the WAL of each begins. */
  readonly stores: readonly { readonly id: string; readonly first: string }[]
  /** Positions of the first and the last segment that are needed; the last one may be unknown. */
  readonly from: number
  readonly upto: number | undefined
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
  /** Makes a store as others were at a moment. Its first start replays their WAL. */
  restore(store: StoreRef, restoration: Restoration, fence: Fence): Promise<Progress>
  /** Packs the data of a store at rest into one compressed file. */
  pack(store: StoreRef, fence: Fence): Promise<Progress>
  /** Brings the data of a packed store back; ends a packing of them. */
  unpack(store: StoreRef, fence: Fence): Promise<Progress>
  /** Whether the data of a store are packed. */
  isPacked(store: Pick<StoreRef, 'id'>): Promise<boolean>
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
  /**
   * Measures the blocks of projects' stores, and which of them each shares with others, in a process of low priority
   * that takes a part of a core. It lasts the longer, the more files these stores have.
   */
  measureSpace(projects: readonly StoresOfProject[]): Promise<MeasuredSpace>
  /**
   * Lets the image of the stores, where there is one, grow by a step if it is short of room, or give back room that it
   * took by itself and no longer needs.
   * @param most the bytes that it may take of the disk below; undefined: all but a tenth of that
   */
  tendImage(most: number | undefined): Promise<TendedImage | undefined>
  /** Up to where the WAL of a store was written at its latest checkpoint ("0/3000028"). Errors: the system's. */
  walPosition(store: Pick<StoreRef, 'id'>): Promise<string>
  /** Up to where the WAL of a store goes that was shut down cleanly; undefined for others. Errors: the system's. */
  shutdownPosition(store: Pick<StoreRef, 'id'>): Promise<string | undefined>
  /** Whether the last server of a store runs, or did not end cleanly. Errors: the system's. */
  hasCrashed(store: Pick<StoreRef, 'id'>): Promise<boolean>
  /** The bytes of WAL that a clone of a running parent replays at its first start; 0 after it, and of other stores. */
  replayBytes(store: Pick<StoreRef, 'id'>): Promise<number>
  /** Whether the first start of a store, which `restore` has made, has yet to replay WAL. */
  isToReplay(store: Pick<StoreRef, 'id'>): Promise<boolean>
  /** Archives complete segments of a store's WAL from this one on. */
  archiveWal(store: Pick<StoreRef, 'id'>, from: string): Promise<ArchivedWal>
  /** The segment with which the WAL of stores begins that are made from a template. */
  templateSegment(pgVersion: number): Promise<string>
  /** Makes a base of a store, or goes on with one, and tells the bytes that it takes. `now`: by the catalog. */
  makeBase(
    store: Pick<StoreRef, 'id' | 'number'>,
    base: { number: number; now: string },
  ): Promise<(MadeBase & { readonly bytes: number }) | 'pending'>
  /** Whether clones of a store take long: its files have many extents, as after random updates. */
  clonesSlowly(store: Pick<StoreRef, 'id'>): Promise<boolean>
  /**
   * Makes clones ahead of a store's data at rest, and of its latest base, where they are wanted, and removes others.
   * `pending`: call again.
   */
  tendSpares(store: Pick<StoreRef, 'id'>, wanted: WantedSpares): Promise<Progress>
  /** Removes a base of a store, and its WAL from one segment on and before another. Returns the bytes of the WAL. */
  removeHistory(storeId: string, part: HistoryPart): Promise<number>
  /** The ids of all stores here. */
  list(): Promise<string[]>
  /** Calls `visit` with the ids of all stores, a batch at a time. One that is being removed may come twice. */
  visit(visit: (ids: string[]) => Promise<void>): Promise<void>
  /** The uid that owns the files of a store; undefined before it has one. */
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
