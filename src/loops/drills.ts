/*
 * Tries backups out: the newest of each protected branch once a day, and of others when it is asked for. It is fetched
 * beside the stores, recovered, checked and removed, as a lost machine would be restored.
 */
import { mkdir, readdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { fetchStore } from '../backup/fetch_store.ts'
import { findRepository, type Repository } from '../backup/repository.ts'
import { listBackups, type StoredBackup } from '../backup/stanza.ts'
import { fetchWalEnd } from '../backup/wal_end.ts'
import {
  type BackupDrill,
  beginDrill,
  type DueDrill,
  endDrill,
  hasDueDrill,
  lockDrills,
  requestDueDrills,
} from '../catalog/backup_drill.ts'
import { findStoredBranch } from '../catalog/branch.ts'
import { CHECK_TIMEOUT_MS, checkData } from '../compute_admin/check_data.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { messageOf } from '../errors.ts'
import { layoutOf } from '../host/layout.ts'
import { lsnPosition, SEGMENT_BYTES } from '../postgres/wal.ts'
import { ownedRefOf } from '../operations/request.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000
/** Left on the disk for running computes. */
const SPARED_BYTES = 2 ** 30

export function startDrillLoop(context: WorkerContext): Loop {
  const { catalog, config, computes, hostId, log } = context
  const stopping = new AbortController()
  let repository: Repository | undefined
  let running: Promise<void> | undefined

  /** An earlier worker may have been killed beside one. */
  const removeLeftovers = async (): Promise<void> => {
    const directory = drillsOf(config)
    for (const id of await readdir(directory).catch(() => [])) {
      await computes.endDrillServer(join(directory, id))
      await rm(join(directory, id), { recursive: true, force: true })
    }
  }

  const drill = async (into: Repository, due: DueDrill): Promise<void> => {
    const result = await tryBackup(context, into, due, stopping.signal).catch((error: unknown) => ({
      error: error instanceof Error && error.name === 'TimeoutError' ? TOO_LONG : messageOf(error),
    }))
    // It is made again by the next worker.
    if (stopping.signal.aborted) return
    await endDrill(catalog, due, result)
    const facts = { branch: due.branch_id, ...result }
    if (result.error === null) log.info(facts, 'a drill has restored a backup')
    else log.error(facts, 'a backup could not be restored')
  }

  /** Another worker of the host may drill: both would use the same directory. */
  const alone = async (work: () => Promise<void>): Promise<void> => {
    const session = await catalog.session()
    try {
      if (await lockDrills(session, hostId)) await work()
    } finally {
      await session.end()
    }
  }

  const drillNext = async (into: Repository): Promise<void> => {
    await removeLeftovers()
    const due = await beginDrill(catalog, hostId)
    if (due) await drill(into, due)
  }

  let isClean = false
  const loop = startPeriodic(
    EVERY_MS,
    async () => {
      if (running || stopping.signal.aborted) return
      if (!isClean) await alone(removeLeftovers)
      isClean = true
      repository = await findRepository(config.dataDir, config.pgBackRest, repository, stopping.signal)
      if (!repository) return
      await requestDueDrills(catalog, hostId, config.drillHours)
      if (!(await hasDueDrill(catalog, hostId))) return
      const into = repository
      running = alone(() => drillNext(into))
        .catch((error: unknown) => log.warn({ err: error }, 'a drill could not be made'))
        .finally(() => (running = undefined))
    },
    (error) => log.warn({ err: error }, 'drills could not be made'),
  )
  return {
    async stop() {
      stopping.abort()
      await loop.stop()
      await running
    },
  }
}

/** The bytes of the WAL that follows a backup. */
async function walBytes(repository: Repository, storeId: string, { lsn }: StoredBackup): Promise<number> {
  const end = await fetchWalEnd(repository, storeId)
  return Math.max(0, (lsnPosition(end?.lsn ?? '') ?? 0) - (lsnPosition(lsn) ?? 0)) + 2 * SEGMENT_BYTES
}

const TOO_LONG = 'Its recovery and checks took too long, and were ended.'

/** The time for a recovery and its checks: a tenant decides what they do, and other drills wait. */
const limitMs = ({ bytes }: StoredBackup): number => 1_800_000 + Math.ceil(bytes / BYTES_PER_MS)
/** Of 20 MB a second. */
const BYTES_PER_MS = 20_000

const drillsOf = (config: WorkerContext['config']): string => join(layoutOf(config).dataDir, 'drill')

async function tryBackup(
  context: WorkerContext,
  repository: Repository,
  drill: DueDrill,
  signal: AbortSignal,
): Promise<Pick<BackupDrill, 'error'> & Partial<BackupDrill>> {
  const { config, computes, secrets } = context
  const branch = await findStoredBranch(context.catalog, drill.branch_id)
  if (!branch) return { error: 'Its data are gone.' }
  const store = await ownedRefOf(context, branch)
  const home = join(drillsOf(config), store.id)
  const backup = (await listBackups(repository, store.id)).at(-1)
  if (!backup) return { error: 'The repository has no backup of it.' }
  await mkdir(home, { recursive: true, mode: 0o711 })
  try {
    const { bsize, bavail } = await statfs(home)
    if (bsize * bavail < backup.bytes + (await walBytes(repository, store.id, backup)) + SPARED_BYTES)
      return { error: 'The disk has no room to try it out.' }
    const fetched = await fetchStore(repository, store.id, home)
    if (!fetched) return { error: 'The repository has no backup of it.' }
    const options = { purpose: 'backup', timeoutMs: CHECK_TIMEOUT_MS }
    const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs(backup))])
    const { damages, databases, tables, indexes, rows } = await computes.runDrill(store, home, limited, (address) =>
      withAdminSession(address, secrets.stores, options, (session) => checkData(session, limited)),
    )
    return {
      error: damages.length > 0 ? damages.join('; ') : null,
      label: fetched.backup.label,
      saved_until: fetched.until ?? fetched.backup.made_at,
      bytes: fetched.backup.bytes,
      databases,
      tables,
      indexes,
      row_count: rows,
    }
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
