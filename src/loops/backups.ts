/*
 * Backs up this host's stores to the repository: for each a backup of a base, and the WAL that follows
 * (backup/). A store with a running compute is compared every few seconds, a sleeping store until the repository has
 * it.
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { removeAbandoned } from '../backup/abandoned.ts'
import { BackupError } from '../backup/pgbackrest.ts'
import { findRepository, type Repository } from '../backup/repository.ts'
import { type PushedWal, pushWal } from '../backup/push_wal.ts'
import { takeBackup } from '../backup/stanza.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { insertBase, nextBase } from '../catalog/history.ts'
import { listUnknownStores } from '../catalog/store.ts'
import {
  awaitStart,
  type BackupWork,
  beginBackups,
  type DueStore,
  listDueStores,
  recordBackup,
  recordPushed,
  requireBackup,
  setBackupError,
  skipLostWal,
} from '../catalog/store_backup.ts'
import type { WorkerContext } from '../context.ts'
import { messageOf } from '../errors.ts'
import { homeOf, layoutOf } from '../host/layout.ts'
import { lsnText, segmentAt } from '../postgres/wal.ts'
import { bringBack } from '../operations/request.ts'
import { requestStart } from '../operations/start_compute.ts'
import { baseOf } from '../storage/base_place.ts'
import { notedRecovery } from '../storage/replay.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 2_000
/**
 * Stores that are worked at beside each other. Backups have places of their own: each may take hours. A project without
 * a place does not wait for one of another's, up to twice as many in all.
 */
const PLACES: Readonly<Record<BackupWork, number>> = { backup: 2, wal: 4 }
/** Between two comparisons of a store with a running compute. Commits are to be there within a minute. */
const COMPARE_SECONDS = 15
const RETRY_MS = 15_000
/** Between two looks at a base that is being made, or a compute that starts. Other stores are due before. */
const LOOK_MS = 5_000
/** Between two removals of the backups of branches that are gone, and before the first. */
const CLEAN_MS = 86_400_000
const FIRST_CLEAN_MS = 3_600_000
/** With more of them, stores are read once more. */
const MAX_MARKS = 10_000

export function startBackupLoop(context: WorkerContext): Loop {
  const { catalog, config, hostId, log } = context
  /** The stores that are worked at, and the project of each. */
  const busy: Readonly<Record<BackupWork, Map<string, string>>> = { backup: new Map(), wal: new Map() }
  /** Until when stores are left alone after a failure. */
  const retryAt = new Map<string, number>()
  /** The marks of the WAL that was written last: they tell whether there is more. */
  const marks = new Map<string, string>()
  const stopping = new AbortController()
  const under = new Set<Promise<void>>()
  let repository: Repository | undefined
  let cleanAt = performance.now() + FIRST_CLEAN_MS

  const warn = (error: unknown) => log.warn({ err: error }, 'could not look for branches to back up')

  async function perform(work: BackupWork, store: DueStore, into: Repository): Promise<void> {
    busy[work].set(store.id, store.project_id)
    try {
      if (await context.storage.isPacked(store)) {
        await catalog.transaction((tx) => bringBack(tx, [store.branch_id]))
        retryAt.set(`${work} ${store.id}`, performance.now() + RETRY_MS)
      } else if (work === 'wal') await push(context, marks, store, into)
      else if ((await backUp(context, store, into)) === 'pending')
        retryAt.set(`${work} ${store.id}`, performance.now() + LOOK_MS)
    } catch (error) {
      if (stopping.signal.aborted) return
      log.warn({ err: error, store: store.id }, 'could not back up a branch')
      retryAt.set(`${work} ${store.id}`, performance.now() + RETRY_MS)
      await setBackupError(catalog, store.id, messageOf(error)).catch(warn)
    } finally {
      busy[work].delete(store.id)
    }
    // A backup may wait for its base: the next round goes on with it.
    if (work === 'wal') await begin(work, into).catch(warn)
  }

  async function begin(work: BackupWork, into: Repository): Promise<void> {
    const now = performance.now()
    for (const [key, until] of retryAt) if (until <= now) retryAt.delete(key)
    await fill(work, into, PLACES[work], () => [])
    await fill(work, into, 2 * PLACES[work], () => [...busy[work].values()])
  }

  /** Begins work at stores of other projects than `without` until so many places are taken. */
  async function fill(work: BackupWork, into: Repository, places: number, without: () => string[]): Promise<void> {
    const taken = busy[work]
    if (taken.size >= places || stopping.signal.aborted) return
    const limit = places + taken.size + retryAt.size
    const rule = { hostId, series: into.series, hours: config.backupHours, without: without(), limit }
    for (const store of await listDueStores(catalog, work, rule)) {
      if (taken.size >= places) return
      if (taken.has(store.id) || retryAt.has(`${work} ${store.id}`) || without().includes(store.project_id)) continue
      const performed = perform(work, store, into).finally(() => under.delete(performed))
      under.add(performed)
    }
  }

  const loop = startPeriodic(
    EVERY_MS,
    async () => {
      const found = await findRepository(config.dataDir, config.pgBackRest, repository, stopping.signal)
      if (found && found.series !== repository?.series) await beginBackups(catalog, found.series)
      repository = found
      if (!found) return
      if (performance.now() > cleanAt) {
        cleanAt = performance.now() + CLEAN_MS
        void clean(context, found)
      }
      await begin('wal', found)
      await begin('backup', found)
      if (marks.size > MAX_MARKS) marks.clear()
    },
    warn,
  )
  return {
    async stop() {
      stopping.abort()
      await loop.stop()
      await Promise.all(under)
    },
  }
}

/**
 * Writes the WAL of a store that the repository does not have yet.
 * @param marks by store, of the WAL that was written last
 */
async function push(
  { catalog, config, log }: WorkerContext,
  marks: Map<string, string>,
  store: DueStore,
  into: Repository,
): Promise<void> {
  const { backup } = store
  if (!backup) return
  const before: PushedWal = {
    segment: backup.pushed_segment,
    lsn: backup.pushed_lsn,
    mark: backup.pushed_lsn === null ? '' : (marks.get(store.id) ?? ''),
  }
  const source = { id: store.id, home: homeOf(layoutOf(config), store.id), first: backup.first_segment }
  const pushed = await pushWal(into, source, before)
  if (pushed === 'missing' && backup.first_segment !== backup.segment) return skipLostWal(catalog, store.id)
  if (pushed === 'missing') {
    log.warn({ store: store.id }, 'WAL of a branch is gone that the repository does not have: it is backed up anew')
    return requireBackup(catalog, store.id)
  }
  marks.set(store.id, pushed.mark)
  const isRecorded = await recordPushed(catalog, { ...store, series: into.series }, pushed, COMPARE_SECONDS)
  if (!isRecorded) marks.delete(store.id)
}

/** Removes the backups of branches that are gone. */
async function clean({ catalog, log }: WorkerContext, repository: Repository): Promise<void> {
  // The catalog's stanza is named as a store.
  const findGone = async (ids: string[]) => {
    const stores = ids.filter((id) => id.startsWith('br-'))
    return listUnknownStores(catalog, stores)
  }
  try {
    const removed = await removeAbandoned(repository, findGone)
    if (removed.length > 0) log.info({ stores: removed }, 'removed backups of branches that are gone')
  } catch (error) {
    log.warn({ err: error }, 'could not remove backups of branches that are gone')
  }
}

/** Makes a backup of a store, or goes on with its base. `pending`: call again. */
async function backUp(context: WorkerContext, store: DueStore, repository: Repository): Promise<'pending' | undefined> {
  const pgdata = join(homeOf(layoutOf(context.config), store.id), 'pgdata')
  if (!existsSync(pgdata) && !(await context.storage.isPacked(store)))
    throw new BackupError('The data of the branch are not in the data directory of this host.')
  if (!(await context.storage.isToReplay(store))) return makeBackup(context, store, repository)
  if (store.backup !== null || (await backUpUnstarted(context, store, repository)))
    await awaitStart(context.catalog, store)
  return undefined
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
  const isAtRest = () => !existsSync(join(pgdata, 'postmaster.pid')) && !!notedRecovery(home) && changed() === before
  const backup = await takeBackup(repository, store.id, source, isAtRest).catch((error: unknown) => {
    if (!isAtRest()) return undefined
    throw error
  })
  if (!backup) return false
  await recordBackup(catalog, store.id, { ...backup, series: repository.series })
  log.info({ store: store.id, ...backup }, 'backed up a branch')
  return true
}

async function makeBackup(
  context: WorkerContext,
  store: DueStore,
  repository: Repository,
): Promise<'pending' | undefined> {
  const { catalog, config, log } = context
  // A base is a copy: none is made for a repository that is away.
  await repository.list('backup')
  const base = store.base ?? (await makeBase(context, store))
  if (base === 'pending' || !base) return base ?? undefined
  const { number, ...facts } = base
  const pgdata = join(baseOf(homeOf(layoutOf(config), store.id), number), 'pgdata')
  const backup = await takeBackup(repository, store.id, { pgdata, ...facts }, () => existsSync(pgdata))
  if (!backup) throw new BackupError('The base was removed while it was backed up.')
  await recordBackup(catalog, store.id, { ...backup, series: repository.series })
  log.info({ store: store.id, ...backup }, 'backed up a branch')
  return undefined
}

/**
 * Makes a base; undefined when the store is gone. One whose server has crashed, and which no client has woken since, is
 * started once: only Postgres tells where its WAL ends.
 */
async function makeBase(context: WorkerContext, store: DueStore): Promise<DueStore['base'] | 'pending' | undefined> {
  const { catalog, storage } = context
  if ((await storage.hasCrashed(store)) && !(await context.computes.isTaken(store))) {
    const endpoint = await findBranchEndpoint(catalog, store.branch_id)
    if (!endpoint) throw new BackupError('The branch has crashed and has no compute that recovers it: make one for it.')
    await requestStart(catalog, endpoint, endpoint.compute_id ?? undefined)
    return 'pending'
  }
  const next = await nextBase(catalog, store.id)
  if (!next) return undefined
  const made = await storage.makeBase(store, next)
  if (made === 'pending') return made
  const made_at = await insertBase(catalog, store.id, { number: next.number, ...made })
  return made_at === undefined ? undefined : { ...made, number: next.number, made_at }
}
