import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Layout, ownerOf, SERVER_PORT } from '../../host/layout.ts'
import { HBA } from '../../postgres/settings.ts'
import type { StoreSecrets } from '../../secrets/stores.ts'
import type { StoreRef } from '../../storage/storage.ts'
import type { ComputeAddress } from '../compute.ts'
import type { Cgroups } from './cgroup.ts'
import { recoverStore } from './recover_store.ts'
import { type ServerPlan, startServer } from './server.ts'
import { stopServer } from './stop_server.ts'
import type { Walls } from './walls.ts'

/** A small compute's: it gives way to those that clients use. */
const LIMITS = { cpus: 0.25, memoryBytes: 512 * 2 ** 20, processes: 64 }
const CONFIG = Object.entries({
  max_connections: '20',
  shared_buffers: '64MB',
  autovacuum: 'off',
  max_logical_replication_workers: '0',
  fsync: 'off',
})
  .map(([name, value]) => `${name} = '${value}'\n`)
  .join('')

interface DrillOptions {
  readonly layout: Layout
  readonly store: StoreRef
  readonly home: string
  readonly bin: string
  readonly walls: Walls
  readonly groups: Cgroups
}

/**
 * The server of a drill: within the walls of its store's computes and groups of its own, without egress, and with a
 * socket of its own.
 */
async function drillPlan({ layout, store, home, bin, walls, groups }: DrillOptions): Promise<ServerPlan> {
  const socketDir = join(layout.runtimeDir, `t${store.number.toString(36)}`)
  await mkdir(layout.runtimeDir, { recursive: true, mode: 0o711 })
  return {
    home,
    owner: ownerOf(store),
    bin,
    socketDir,
    walls,
    root: layout.root,
    egress: '',
    processes: LIMITS.processes,
    groups: (instance) => groups.groupsFor(instance, LIMITS, false),
    hba: HBA,
    config: CONFIG,
    logFile: join(home, 'postgres.log'),
  }
}

/** Ends the server on a directory, if one runs. */
export async function endDrillServer(home: string): Promise<void> {
  if (existsSync(home)) while ((await stopServer(home)) === 'pending');
}

/** Recovers a data directory, runs `work` beside its server, and ends that. Errors: those of `signal` too. */
export async function runDrill<T>(
  options: DrillOptions,
  secrets: StoreSecrets,
  signal: AbortSignal,
  work: (address: ComputeAddress) => Promise<T>,
): Promise<T> {
  const plan = await drillPlan(options)
  const { id } = options.store
  try {
    while ((await recoverStore(plan, id, secrets)) === 'pending') signal.throwIfAborted()
    while ((await startServer(plan)) === 'pending') signal.throwIfAborted()
    return await work({ host: plan.socketDir, port: SERVER_PORT, store: id })
  } finally {
    await endDrillServer(plan.home)
    await rm(plan.socketDir, { recursive: true, force: true })
  }
}
