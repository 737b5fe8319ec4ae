import { realpath, stat, statfs } from 'node:fs/promises'
import { availableParallelism, hostname, totalmem } from 'node:os'
import { recordHeartbeat, listStoresElsewhere, registerHost } from '../catalog/host.ts'
import type { Config } from '../config.ts'
import type { WorkerContext } from '../context.ts'
import { UsageError } from '../errors.ts'
import { readInstallation } from '../host/installation.ts'
import { layoutOf } from '../host/layout.ts'
import { roomOf } from '../size.ts'
import { compareHeartbeat, compareWithDisk, requireOwnCatalog } from './catalog_age.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 10_000

/** Registers this host with its capacity: from then on operations can name it. */
export async function register(context: WorkerContext): Promise<void> {
  const { catalog, storage, computes, config, hostId, log } = context
  const note = await requireOwnCatalog(context)
  const elsewhere: Awaited<ReturnType<typeof listStoresElsewhere>> = []
  let stores = 0
  await storage.visit(async (ids) => {
    stores += ids.length
    elsewhere.push(...(await listStoresElsewhere(catalog, hostId, ids)))
  })
  const [first] = elsewhere
  // With an id of its own it would be given new stores, and then no id would fit them all.
  if (first && elsewhere.length === stores)
    throw new UsageError(
      `The stores of this data directory are those of the host ${first.host_id}: ` +
        `write that id into its file "host" and start again.`,
    )
  const limitError = await computes.whyNoLimits()
  const [cpus, memoryBytes] = [availableParallelism(), totalmem()]
  const capacity = {
    region: config.region,
    cpus,
    memoryBytes,
    capacityCu: roomOf(cpus, memoryBytes, config.overcommit),
    limitError,
    cloneMode: await storage.cloneMode(),
    place: await placeOf(config),
  }
  await compareWithDisk(context, note, await registerHost(catalog, hostId, capacity))
  for (const { id, host_id } of elsewhere)
    log.error(
      { store: id, host: host_id },
      `the catalog has this store on another host, ${host_id}. ` +
        `If this data directory is that host's, write that id into its file "host" and start again`,
    )
}

/** Names this data directory where others may share the catalog; an embedded one moves along with its directory. */
async function placeOf({ catalogUrl, dataDir }: Config): Promise<string | undefined> {
  if (!catalogUrl) return undefined
  return `${hostname()} ${await realpath(dataDir)} ${(await stat(dataDir)).ino}`
}

/** Computes refuse writes while less is free: this part of the disk, or so many bytes if those are fewer. */
const RESERVE = 0.05
const RESERVE_BYTES = 512 * 2 ** 20
/** So many inodes, as those of six new branches. */
const RESERVE_INODES = 10_000

/** Says every ten seconds that this host's worker lives, and how much of its disk is free. */
export function startHeartbeat(context: WorkerContext): Loop {
  const { catalog, config, hostId, log } = context
  // In an image, the stores have a disk of their own.
  const { branches } = layoutOf(config)
  // Read once: the name of this machine may change, which makes it no other host.
  let place: string | undefined
  return startPeriodic(
    EVERY_MS,
    async () => {
      const found = await statfs(branches).catch(() => statfs(config.dataDir))
      const { bsize, blocks, bfree, bavail, files, ffree } = found
      // As df(1) counts: without what is reserved for root.
      const bytes = (blocks - bfree + bavail) * bsize
      const reserve =
        config.diskReserveMib === undefined ? Math.min(RESERVE * bytes, RESERVE_BYTES) : config.diskReserveMib * 2 ** 20
      const note = await readInstallation(config.dataDir)
      // A filesystem that allocates inodes on demand reports a total of 0.
      const lacksInodes = files > 0 && ffree < Math.min(RESERVE * files, RESERVE_INODES)
      const disk = { bytes, free: bavail * bsize, reserve: Math.round(reserve), lacksInodes }
      const seen = await recordHeartbeat(catalog, hostId, disk, (place ??= await placeOf(config)))
      if (seen && (await compareHeartbeat(context, note, seen))) return
      log.fatal('the catalog is another one by now, or has this host elsewhere: starting again')
      // No step of this worker may go on.
      process.exit(1)
    },
    (error) => log.debug({ err: error }, 'could not record a heartbeat'),
  )
}
