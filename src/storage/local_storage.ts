import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isInstalled, offeredExtensions } from '../host/binaries.ts'
import type { Fence, Progress } from '../host/fence.ts'
import { homeOf, layoutOf, logDirOf, ownerOf, socketDirOf } from '../host/layout.ts'
import type { HostOptions } from '../host/options.ts'
import { waitStopped } from '../host/server_lock.ts'
import { explainShortages } from '../host/shortage.ts'
import { PG_VERSIONS } from '../postgres/versions.ts'
import { fillDataDirectory } from './clone.ts'
import type { CopyPlan } from './copier.ts'
import { copyProgressText, readCopyProgress } from './copy_progress.ts'
import { checkpointPosition } from '../postgres/control_file.ts'
import { measureDataDirectory, measureReplay } from './measure.ts'
import { prepareVersion } from './prepare.ts'
import { endCopies, expireRemovalNotes, removeStored, storedIds, visitStores } from './remove.ts'
import { cloneModeOf } from './report.ts'
import type { RunningCopies, Storage, StoreRef } from './storage.ts'

/** The progress of a copy is told so often. */
const FILL_SECONDS = 2

/** Stores as directories of this machine. */
export function localStorage(options: HostOptions): Storage {
  const layout = layoutOf(options)

  /** The stores into which copies were made when they were last asked for. */
  const copying = new Set<string>()

  async function fill(store: StoreRef, source: Pick<CopyPlan, 'from' | 'parent'>, fence: Fence): Promise<Progress> {
    copying.delete(store.id)
    const plan = { home: homeOf(layout, store.id), owner: ownerOf(store), ...source }
    const progress = await fillDataDirectory(plan, {
      removed: join(layout.removed, store.id),
      logFile: join(logDirOf(layout, store.id), 'copy.log'),
      cacheDir: layout.cache,
      fence,
    })
    if (progress === 'pending') copying.add(store.id)
    return progress
  }

  function runningCopies(): RunningCopies {
    for (const id of copying) if (!existsSync(join(homeOf(layout, id), 'copier'))) copying.delete(id)
    const known = [...copying].flatMap((id) => readCopyProgress(homeOf(layout, id)) ?? [])
    const copiedBytes = known.reduce((sum, each) => sum + each.copiedBytes, 0)
    const leftBytes = known.reduce((sum, each) => sum + each.totalBytes - each.copiedBytes, 0)
    return { count: copying.size, copiedBytes, leftBytes }
  }

  const calls: Storage = {
    prepare: async (pgVersion) => {
      await prepareVersion(layout, pgVersion, options.secrets, options.programs)
    },
    create: (store, fence) => fill(store, { from: join(layout.templates, String(store.pgVersion)) }, fence),
    clone: (store, parent, fence) => {
      const reach = { socketDir: socketDirOf(layout, parent), passwords: options.secrets.admin(parent.id) }
      return fill(store, { from: homeOf(layout, parent.id), parent: reach }, fence)
    },
    filled: async ({ id }) => void (await waitStopped(homeOf(layout, id), FILL_SECONDS)),
    readProgress: async ({ id }) => {
      const progress = readCopyProgress(homeOf(layout, id))
      return progress && copyProgressText(progress)
    },
    runningCopies: async () => runningCopies(),
    remove: (store, fence) => removeStored(layout, store, fence, options.log),
    measure: ({ id }) => measureDataDirectory(join(homeOf(layout, id), 'pgdata')),
    walPosition: ({ id }) => checkpointPosition(join(homeOf(layout, id), 'pgdata')),
    replayBytes: ({ id }) => measureReplay(join(homeOf(layout, id), 'pgdata')),
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
