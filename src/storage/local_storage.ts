import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { cloneKindOf } from '../host/clone_kind.ts'
import { isInstalled, offeredExtensions } from '../host/binaries.ts'
import type { Fence, Progress } from '../host/fence.ts'
import { homeOf, layoutOf, logDirOf, ownerOf, socketDirOf } from '../host/layout.ts'
import type { HostOptions } from '../host/options.ts'
import { probeOnce } from '../host/probe_once.ts'
import { waitStopped } from '../host/server_lock.ts'
import { explainShortages } from '../host/shortage.ts'
import { PG_VERSIONS } from '../postgres/versions.ts'
import { segmentPosition } from '../postgres/wal.ts'
import { makeBase, readCheckpoint, removeBase, removeBases } from './base.ts'
import { baseOf } from './base_place.ts'
import { fillDataDirectory } from './clone.ts'
import type { CopyPlan } from './copier.ts'
import { copyProgressText, readCopyProgress } from './copy_progress.ts'
import { checkpointPosition, isInProduction, shutdownPosition } from '../postgres/control_file.ts'
import { measureDataDirectory, measureReplay } from './measure.ts'
import { isPacked, packStore, unpackStore } from './pack.ts'
import { tendImage } from './image/tend.ts'
import { prepareVersion } from './prepare.ts'
import { endCopies, expireRemovalNotes, removeStored, storedIds, visitStores } from './remove.ts'
import { cloneEnd, hasManyExtents } from './reflink.ts'
import { withTimeout } from '../race.ts'
import { cloneModeOf } from './report.ts'
import { notedRecovery } from './replay.ts'
import { measureSpace } from './space.ts'
import type { HistoryPart, Restoration, RunningCopies, Storage, StoreRef } from './storage.ts'
import { tendSpares } from './tend_spares.ts'
import { archiveWal, removeArchived } from './wal_archive.ts'

/** The progress of a copy is told so often. */
const FILL_SECONDS = 2

/** The share of a core that a measurement of all stores takes. */
const MEASURING_SHARE = 0.2

/** Stores as directories of this machine. */
export function localStorage(options: HostOptions): Storage {
  const layout = layoutOf(options)

  // On the filesystem of the stores, where a probe that is killed leaves its file among notes that expire.
  const cloneKind = probeOnce(() => cloneKindOf(layout.removed))

  /** The stores into which copies were made when they were last asked for. */
  const copying = new Set<string>()

  const copyOptions = (id: string) => ({
    removed: join(layout.removed, id),
    logFile: join(logDirOf(layout, id), 'copy.log'),
    cacheDir: layout.cache,
    cloneKind,
  })

  const isCopied = async (): Promise<boolean> => (await cloneModeOf(layout.dataDir)) === 'copy'

  const templateOf = (pgVersion: number): string => join(layout.templates, String(pgVersion))

  const reach = (store: Pick<StoreRef, 'id' | 'number'>) => ({
    socketDir: socketDirOf(layout, store),
    passwords: options.secrets.admin(store.id),
  })

  async function fill(store: StoreRef, source: Omit<CopyPlan, 'home' | 'owner'>, fence: Fence): Promise<Progress> {
    copying.delete(store.id)
    const plan = { home: homeOf(layout, store.id), owner: ownerOf(store), ...source }
    const progress = await fillDataDirectory(plan, { ...copyOptions(store.id), fence })
    if (progress === 'pending') copying.add(store.id)
    return progress
  }

  function runningCopies(): RunningCopies {
    for (const id of copying) if (!existsSync(join(homeOf(layout, id), 'copier'))) copying.delete(id)
    return sumCopies([...copying].map((id) => homeOf(layout, id)))
  }

  function restore(store: StoreRef, restoration: Restoration, fence: Fence): Promise<Progress> {
    const { target, base, stores, from, upto } = restoration
    const sources = stores.map(({ id, first }) => ({ home: homeOf(layout, id), first }))
    const source = base ? baseOf(homeOf(layout, base.storeId), base.number) : templateOf(store.pgVersion)
    return fill(store, { from: source, replay: { target, sources, from, upto } }, fence)
  }

  const calls: Storage = {
    prepare: async (pgVersion) => {
      await prepareVersion(layout, pgVersion, options.secrets, options.programs)
    },
    create: (store, fence) => fill(store, { from: templateOf(store.pgVersion) }, fence),
    clone: (store, parent, fence) => fill(store, { from: homeOf(layout, parent.id), parent: reach(parent) }, fence),
    restore,
    pack: ({ id }, fence) => packStore(homeOf(layout, id), { ...copyOptions(id), fence }),
    unpack: ({ id }, fence) => unpackStore(homeOf(layout, id), { ...copyOptions(id), fence }),
    isPacked: async ({ id }) => isPacked(homeOf(layout, id)),
    filled: ({ id }) => waitFilled(homeOf(layout, id)),
    readProgress: async ({ id }) => {
      const progress = readCopyProgress(homeOf(layout, id))
      return progress && copyProgressText(progress)
    },
    runningCopies: async () => runningCopies(),
    remove: (store, fence) => removeStored(layout, store, fence, options.log),
    measure: ({ id }) => measureDataDirectory(join(homeOf(layout, id), 'pgdata')),
    measureSpace: (projects) => measureSpace(layout, isCopied, projects, MEASURING_SHARE),
    tendImage: (most) => tendImage(layout.dataDir, most),
    ...stateCalls((id) => join(homeOf(layout, id), 'pgdata')),
    isToReplay: async ({ id }) => notedRecovery(homeOf(layout, id)) !== undefined,
    ...historyCalls((id) => homeOf(layout, id)),
    templateSegment: async (version) => (await readCheckpoint(join(templateOf(version), 'pgdata'))).segment,
    async makeBase(store, base) {
      const home = homeOf(layout, store.id)
      const made = await makeBase(home, base, { parent: reach(store), ...copyOptions(store.id) })
      if (made === 'pending') return made
      const isShared = !(await isCopied())
      const pgdata = join(baseOf(home, base.number), 'pgdata')
      return { ...made, bytes: isShared ? 0 : (await measureDataDirectory(pgdata)).bytes }
    },
    clonesSlowly: async ({ id }) => (await cloneKind()) === 'reflink' && (await hasManyExtents(homeOf(layout, id))),
    tendSpares: ({ id }, wanted) => tendSpares(homeOf(layout, id), wanted, copyOptions(id)),
    list: () => storedIds(layout),
    visit: (visit) => visitStores(layout, visit),
    ownerOf: async ({ id }) => (await stat(join(homeOf(layout, id), 'pgdata')).catch(() => undefined))?.uid,
    cloneMode: () => cloneModeOf(layout.dataDir),
    pgVersions: async () => PG_VERSIONS.filter((version) => isInstalled(version, options.programs)),
    extensions: (pgVersion) => offeredExtensions(pgVersion, options.programs),
    stopCopies: () => endCopies(layout),
    tidy: () => expireRemovalNotes(layout),
  }
  return explainShortages(calls, layout.branches)
}

function sumCopies(homes: readonly string[]): RunningCopies {
  const known = homes.flatMap((home) => readCopyProgress(home) ?? [])
  const copiedBytes = known.reduce((sum, each) => sum + each.copiedBytes, 0)
  const leftBytes = known.reduce((sum, each) => sum + each.totalBytes - each.copiedBytes, 0)
  return { count: homes.length, copiedBytes, leftBytes }
}

async function waitFilled(home: string): Promise<void> {
  const clone = cloneEnd(home)
  await (clone ? withTimeout(clone, FILL_SECONDS * 1000, undefined) : waitStopped(home, FILL_SECONDS))
}

/** Readings of the control file of a data directory. */
const stateCalls = (
  pgdata: (id: string) => string,
): Pick<Storage, 'walPosition' | 'shutdownPosition' | 'hasCrashed' | 'replayBytes'> => ({
  walPosition: ({ id }) => checkpointPosition(pgdata(id)),
  shutdownPosition: ({ id }) => shutdownPosition(pgdata(id)),
  // A clone of a running parent by an earlier Neap has a label instead.
  hasCrashed: async ({ id }) => !existsSync(join(pgdata(id), 'backup_label')) && isInProduction(pgdata(id)),
  replayBytes: ({ id }) => measureReplay(pgdata(id)),
})

const historyCalls = (home: (id: string) => string): Pick<Storage, 'archiveWal' | 'removeHistory'> => ({
  archiveWal: ({ id }, from) => archiveWal(home(id), from),
  async removeHistory(id: string, { base, from, before }: HistoryPart) {
    if (base === 'all') await removeBases(home(id))
    else if (base !== undefined) await removeBase(home(id), base)
    const positions = [from ? segmentPosition(from) : 0, before ? segmentPosition(before) : Infinity] as const
    return removeArchived(home(id), ...positions)
  },
})
