/*
 * Which catalog a data directory belongs to, and whether the catalog is older than the directory: restored from a
 * backup, or a replica that had not received all. Found
 *   - at a worker's start and each heartbeat: the directory has a note of a later heartbeat;
 *   - by an attempt that is fenced off though the catalog knows of no later one.
 * Then the catalog's epoch is raised, and computes and uids are taken from the disk again.
 */
import type { Heartbeat } from '../catalog/host.ts'
import { findInstallation, isLastAttempt, raiseEpoch } from '../catalog/installation.ts'
import { listUnknownStores } from '../catalog/store.ts'
import { recordUids } from '../catalog/store_uid.ts'
import type { WorkerContext } from '../context.ts'
import type { Due } from '../engine/claim.ts'
import { UsageError } from '../errors.ts'
import { ADOPT, type InstallationNote, noteInstallation, readInstallation } from '../host/installation.ts'
import { requireUnusedUids } from '../host/uids.ts'
import { adopt } from './adoption.ts'

type Note = Awaited<ReturnType<typeof readInstallation>>

/**
 * Returns the note of this data directory. Errors: UsageError, if its stores belong to another installation than the
 * catalog.
 */
export async function requireOwnCatalog(context: Pick<WorkerContext, 'catalog' | 'config' | 'storage'>): Promise<Note> {
  const { catalog, config } = context
  const { dataDir, catalogUrl } = config
  const note = await readInstallation(dataDir)
  if (note === ADOPT) return note
  const { id } = await findInstallation(catalog)
  // A data directory of an earlier Neap has no note. An embedded catalog lies in it.
  const isForeign = note ? note.id !== id : catalogUrl !== undefined && (await knowsNoStore(context))
  if (isForeign)
    throw new UsageError(
      `The stores of ${dataDir} belong to another installation than this catalog's (${id}): ` +
        'name their own catalog, or restore it from a backup. ' +
        `If this catalog is to have them: npx neap catalog adopt --data-dir ${dataDir}`,
    )
  return note
}

/** Whether there are stores here, all unknown to the catalog. */
async function knowsNoStore({ catalog, storage }: Pick<WorkerContext, 'catalog' | 'storage'>): Promise<boolean> {
  let [stores, unknown] = [0, 0]
  await storage.visit(async (ids) => {
    stores += ids.length
    unknown += (await listUnknownStores(catalog, ids)).length
  })
  return stores > 0 && unknown === stores
}

/**
 * Notes the catalog's state, and raises the epoch if the directory has seen a later one.
 * @param note from before the registration: a second worker of this host may note a later one
 * @param beats the heartbeats at the registration
 */
export async function compareWithDisk(context: WorkerContext, note: Note, beats: number): Promise<void> {
  const { epoch } = await findInstallation(context.catalog)
  if (note === ADOPT) await raise(context, epoch)
  else if (note && isLater(note, { epoch, beats })) await raise(context, Math.max(epoch, note.epoch))
  await noteState(context, beats)
  await recordStoreUids(context)
}

/**
 * Compares a heartbeat with the note from before it: a second worker of this host may note a later one meanwhile.
 * Returns false if the catalog is another installation's by now.
 */
export async function compareHeartbeat(context: WorkerContext, note: Note, seen: Heartbeat): Promise<boolean> {
  // At the next start.
  if (note === ADOPT) return true
  if (note && note.id !== seen.installation) return false
  if (note && isLater(note, { ...seen, beats: seen.beats - 1 })) {
    await raise(context, Math.max(seen.epoch, note.epoch))
    await takeFromDisk(context)
  }
  await noteState(context, seen.beats)
  return true
}

/** Call after an attempt was fenced off. */
export async function explainFence(context: WorkerContext, operation: Due): Promise<void> {
  if (!(await isLastAttempt(context.catalog, operation))) return
  if (await raise(context, operation.epoch)) await takeFromDisk(context)
}

const isLater = (note: InstallationNote, { epoch, beats }: { epoch: number; beats: number }): boolean =>
  note.epoch > epoch || note.beats > beats

async function raise({ catalog, log }: WorkerContext, above: number): Promise<boolean> {
  const isRaised = await raiseEpoch(catalog, above)
  if (isRaised)
    log.warn(
      { epoch: above + 1 },
      'the catalog is older than the data directory of this host, as after a restore from a backup. ' +
        'Stores that it does not know are left alone; npx neap catalog unknown lists them',
    )
  return isRaised
}

async function noteState({ catalog, config, log }: WorkerContext, beats: number): Promise<void> {
  const installation = await findInstallation(catalog)
  // A full disk must not keep a worker from deleting branches.
  await noteInstallation(config.dataDir, { ...installation, beats }).catch((error: unknown) =>
    log.debug({ err: error }, 'could not note the state of the catalog'),
  )
}

async function takeFromDisk(context: WorkerContext): Promise<void> {
  await recordStoreUids(context)
  await adopt(context)
}

async function recordStoreUids({ catalog, storage, hostId, uids }: WorkerContext): Promise<void> {
  if (!uids) return
  await requireUnusedUids(uids)
  const given = { ...uids, first: uids.first + 1 }
  await recordUids(
    catalog,
    hostId,
    given,
    (visit) => storage.visit(visit),
    (id) => storage.ownerOf({ id }),
  )
}
