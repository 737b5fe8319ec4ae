/*
 * Tries backups out: the newest of each protected branch once a day, and of others when it is asked for. It is fetched
 * beside the stores, recovered, checked and removed, as a lost machine would be restored.
 */
import { mkdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { fetchStore } from '../backup/fetch_store.ts'
import { findRepository, type Repository } from '../backup/repository.ts'
import { listBackups } from '../backup/stanza.ts'
import { type BackupDrill, beginDrill, type DueDrill, endDrill, requestDueDrills } from '../catalog/backup_drill.ts'
import { CHECK_TIMEOUT_MS, checkData } from '../compute_admin/check_data.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { messageOf } from '../errors.ts'
import { layoutOf } from '../host/layout.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 5_000
/** Left on the disk for running computes. */
const SPARED_BYTES = 2 ** 30

export function startDrillLoop(context: WorkerContext): Loop {
  const { catalog, config, hostId, log } = context
  let repository: Repository | undefined
  return startPeriodic(
    EVERY_MS,
    async () => {
      repository = await findRepository(config.dataDir, config.pgBackRest, repository)
      if (!repository) return
      await requestDueDrills(catalog, hostId, config.drillHours)
      const drill = await beginDrill(catalog, hostId)
      if (!drill) return
      const result = await tryBackup(context, repository, drill).catch((error: unknown) => ({
        error: messageOf(error),
      }))
      await endDrill(catalog, drill, result)
      const facts = { branch: drill.branch_id, ...result }
      if (result.error === null) log.info(facts, 'tried out a backup')
      else log.error(facts, 'a backup could not be restored')
    },
    (error) => log.warn({ err: error }, 'could not try out backups'),
  )
}

async function tryBackup(
  { config, computes, secrets }: WorkerContext,
  repository: Repository,
  drill: DueDrill,
): Promise<Pick<BackupDrill, 'error'> & Partial<BackupDrill>> {
  const store = { id: drill.store_id, number: drill.number, uid: drill.uid, pgVersion: drill.pg_version }
  const home = join(layoutOf(config).dataDir, 'drill', store.id)
  // An earlier trial was killed.
  await rm(home, { recursive: true, force: true })
  const backup = (await listBackups(repository, store.id)).at(-1)
  if (!backup) return { error: 'The repository has no backup of it.' }
  await mkdir(home, { recursive: true, mode: 0o711 })
  try {
    const { bsize, bavail } = await statfs(home)
    if (bsize * bavail < backup.bytes + SPARED_BYTES) return { error: 'The disk has no room to try it out.' }
    const fetched = await fetchStore(repository, store.id, home)
    if (!fetched) return { error: 'The repository has no backup of it.' }
    const options = { purpose: 'backup', timeoutMs: CHECK_TIMEOUT_MS }
    const { damages, databases, tables, indexes, rows } = await computes.tryOut(store, home, (address) =>
      withAdminSession(address, secrets.stores, options, (session) => checkData(session, new AbortController().signal)),
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
