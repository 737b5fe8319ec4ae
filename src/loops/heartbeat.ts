import { availableParallelism, totalmem } from 'node:os'
import { recordHeartbeat, listStoresElsewhere, registerHost } from '../catalog/host.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 10_000

/** Registers this host with its capacity: from then on operations can name it. */
export async function register({ catalog, storage, computes, config, hostId, log }: WorkerContext): Promise<void> {
  const limitError = await computes.whyNoLimits()
  const capacity = { region: config.region, cpus: availableParallelism(), memoryBytes: totalmem(), limitError }
  await registerHost(catalog, hostId, capacity)
  for (const { id, host_id } of await listStoresElsewhere(catalog, hostId, await storage.list()))
    log.error(
      { store: id, host: host_id },
      `the catalog has this store on another host, ${host_id}. ` +
        `If this data directory is that host's, write that id into its file "host" and start again`,
    )
}

/** Says every ten seconds that this host's worker lives: new projects are placed on hosts that live. */
export function startHeartbeat({ catalog, hostId, log }: WorkerContext): Loop {
  return startPeriodic(
    EVERY_MS,
    () => recordHeartbeat(catalog, hostId),
    (error) => log.debug({ err: error }, 'could not record a heartbeat'),
  )
}
