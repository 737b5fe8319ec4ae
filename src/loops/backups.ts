/*
 * Backs up this host's stores to the repository: for each a backup of a base, and the WAL that follows
 * (backup/). A store with a running compute is compared every few seconds, a sleeping store until the repository has
 * it.
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { removeAbandoned } from '../backup/abandoned.ts'
import { findRepository, type Repository } from '../backup/repository.ts'
import { type PushedWal, pushWal } from '../backup/push_wal.ts'
import { voidBackup, takeBackup } from '../backup/stanza.ts'
import { insertBase, nextBase } from '../catalog/history.ts'
import { listUnknownStores } from '../catalog/store.ts'
import {
  awaitStart,
  beginBackups,
  type DueStore,
  listDueStores,
  postponeBackup,
  recordBackup,
  recordPushed,
} from '../catalog/store_backup.ts'
import type { WorkerContext } from '../context.ts'
import { messageOf } from '../errors.ts'
import { homeOf, layoutOf } from '../host/layout.ts'
import { lsnText, segmentAt } from '../postgres/wal.ts'
import { bringBack } from '../operations/request.ts'
import { baseOf } from '../storage/base.ts'
import { notedRecovery } from '../storage/replay.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 2_000
/** Stores that are written beside each other. */
const PLACES = 2
/** Between two comparisons of a store with a running compute. Commits are to be there within a minute. */
const COMPARE_SECONDS = 15
const PENDING_SECONDS = 2
const RETRY_SECONDS = 60
/** Between two removals of the backups of branches that are gone, and before the first. */
const CLEAN_MS = 86_400_000
const FIRST_CLEAN_MS = 3_600_000

export function startBackupLoop(context: WorkerContext): Loop {
  const { catalog, config, hostId, log } = context
  const busy = new Set<string>()
  /** The marks of the WAL that was written last: they tell whether there is more. */
  const marks = new Map<string, string>()
  let repository: Repository | undefined
  let cleanAt = performance.now() + FIRST_CLEAN_MS

  async function clean(from: Repository): Promise<void> {
    // The catalog's stanza is named as a store.
    const findGone = (ids: string[]) =>
      listUnknownStores(
        catalog,
        ids.filter((id) => id.startsWith('br-')),
      )
    try {
      const removed = await removeAbandoned(from, findGone)
      if (removed.length > 0) log.info({ stores: removed }, 'removed backups of branches that are gone')
    } catch (error) {
      log.warn({ err: error }, 'could not remove backups of branches that are gone')
    }
  }

  async function keep(store: DueStore, into: Repository): Promise<void> {
    busy.add(store.id)
    try {
      if (await context.storage.isPacked(store)) {
        await catalog.transaction((tx) => bringBack(tx, [store.branch_id]))
        await postponeBackup(catalog, store.id, RETRY_SECONDS, 'It is archived, and brought back for its backup.')
        return
      }
      const backup = await withBackup(context, store, into)
      if (backup) await push(store, into, backup)
    } catch (error) {
      log.warn({ err: error, store: store.id }, 'could not back up a branch')
      await postponeBackup(catalog, store.id, RETRY_SECONDS, messageOf(error))
    } finally {
      busy.delete(store.id)
    }
  }

  async function push(store: DueStore, into: Repository, backup: NonNullable<DueStore['backup']>): Promise<void> {
    const before: PushedWal = {
      segment: backup.pushed_segment,
      lsn: backup.pushed_lsn,
      mark: backup.pushed_lsn === null ? '' : (marks.get(store.id) ?? ''),
    }
    const source = { id: store.id, home: homeOf(layoutOf(config), store.id), first: backup.segment }
    const pushed = await pushWal(into, source, before)
    if (pushed === 'missing') {
      log.warn({ store: store.id }, 'WAL of a branch is gone that the repository does not have: it is backed up anew')
      await makeBackup(context, { ...store, base: null }, into)
      return
    }
    marks.set(store.id, pushed.mark)
    await recordPushed(catalog, store, pushed, COMPARE_SECONDS)
  }

  return startPeriodic(
    EVERY_MS,
    async () => {
      const found = await findRepository(config.dataDir, config.pgBackRest, repository)
      if (found && found.series !== repository?.series) await beginBackups(catalog, found.series)
      repository = found
      if (!found) return
      if (performance.now() > cleanAt) {
        cleanAt = performance.now() + CLEAN_MS
        void clean(found)
      }
      const rule = { hostId, series: found.series, hours: config.backupHours, limit: PLACES + busy.size }
      const due = await listDueStores(catalog, rule)
      for (const store of due) if (busy.size < PLACES && !busy.has(store.id)) void keep(store, found)
      if (marks.size > 10 * due.length + 1_000) marks.clear()
    },
    (error) => log.warn({ err: error }, 'could not look for branches to back up'),
  )
}

/** The newest backup of a store, made now if it is due; undefined while its base is being made. */
async function withBackup(
  context: WorkerContext,
  store: DueStore,
  repository: Repository,
): Promise<NonNullable<DueStore['backup']> | undefined> {
  if (store.backup && !store.backup.is_due) return store.backup
  if (await context.storage.isToReplay(store)) {
    const isWhole = store.backup !== null || (await backUpUnstarted(context, store, repository))
    if (isWhole) await awaitStart(context.catalog, store)
    else await postponeBackup(context.catalog, store.id, PENDING_SECONDS, null)
    return undefined
  }
  const segment = await makeBackup(context, store, repository)
  if (segment === undefined) return undefined
  const pushed = store.backup?.pushed_segment ?? null
  return {
    segment,
    pushed_segment: pushed !== null && pushed >= segment ? pushed : null,
    pushed_lsn: null,
    is_due: false,
  }
}

/**
 * Backs up, as it lies, a store that has yet to replay WAL at its first start. Returns false if it was started
 * meanwhile.
 */
async function backUpUnstarted(
  { catalog, config, log }: WorkerContext,
  store: DueStore,
  repository: Repository,
): Promise<boolean> {
  const home = homeOf(layoutOf(config), store.id)
  const pgdata = join(home, 'pgdata')
  const recovery = notedRecovery(home)
  const changed = () => statSync(join(pgdata, 'global/pg_control')).mtimeMs
  const before = changed()
  if (!recovery) return false
  const now = new Date().toISOString()
  const segment = segmentAt(recovery.timeline, recovery.last)
  const source = { pgdata, recovery, segment, lsn: lsnText(recovery.last), started_at: now, made_at: now }
  const isStarted = () => existsSync(join(pgdata, 'postmaster.pid')) || !notedRecovery(home) || changed() !== before
  const backup = await takeBackup(repository, store.id, source).catch((error: unknown) => {
    if (isStarted()) return undefined
    throw error
  })
  if (!backup) return false
  if (isStarted()) {
    await voidBackup(repository, store.id, backup.label)
    return false
  }
  await recordBackup(catalog, store.id, { ...backup, series: repository.series })
  log.info({ store: store.id, ...backup }, 'backed up a branch')
  return true
}

/** Makes a backup. Returns the segment that it needs first; undefined while its base is being made. */
async function makeBackup(
  context: WorkerContext,
  store: DueStore,
  repository: Repository,
): Promise<string | undefined> {
  const { catalog, config, log } = context
  const base = store.base ?? (await makeBase(context, store))
  if (base === 'pending') {
    await postponeBackup(catalog, store.id, PENDING_SECONDS, null)
    return undefined
  }
  if (!base) return undefined
  const { number, ...facts } = base
  const pgdata = join(baseOf(homeOf(layoutOf(config), store.id), number), 'pgdata')
  const backup = await takeBackup(repository, store.id, { pgdata, ...facts })
  await recordBackup(catalog, store.id, { ...backup, series: repository.series })
  log.info({ store: store.id, ...backup }, 'backed up a branch')
  return facts.segment
}

/** Makes a base; undefined when the store is gone. */
async function makeBase(
  { catalog, storage }: WorkerContext,
  store: DueStore,
): Promise<DueStore['base'] | 'pending' | undefined> {
  const next = await nextBase(catalog, store.id)
  if (!next) return undefined
  const made = await storage.makeBase(store, next)
  if (made === 'pending') return made
  const made_at = await insertBase(catalog, store.id, { number: next.number, ...made })
  return made_at === undefined ? undefined : { ...made, number: next.number, made_at }
}
