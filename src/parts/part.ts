import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { requireCurrentTables } from '../catalog/migrate.ts'
import { CATALOG_ADMIN, CATALOG_PROXY, type EmbeddedLogin } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import { createConnectionMetrics } from '../observe/catalog_metrics.ts'
import { createLog } from '../observe/log.ts'
import { createRegistry } from '../observe/registry.ts'
import { loadPartSecrets, type Secrets } from '../secrets/secrets.ts'
import { followKeys } from '../supervisor/follow_keys.ts'
import { awaitCatalog } from './await_catalog.ts'
import type { PartName } from '../secrets/part_keys.ts'
import { type PartProbes, startProbes } from './probes.ts'
import { isSupervised, onStop, notifySupervisor } from './supervised.ts'

/** A running part of Neap. */
export interface Part {
  /** The port that it listens on, if any; logged when it is ready. */
  readonly port?: number
  /** Accepts no new work from now on; resolves when its current work is done, or its drain time is over. */
  drain?(): Promise<void>
  stop(): Promise<void>
}

/**
 * Runs one part in this process until a signal, or until its supervisor requests a stop or ends. Under a supervisor it
 * ignores an interrupt from the terminal, since the supervisor stops the parts in order. A part that can drain does so
 * on SIGTERM, and ends at the second.
 */
export async function runPart(
  name: PartName,
  config: Config,
  start: (context: Context, probes: PartProbes['probes']) => Promise<Part>,
): Promise<void> {
  const supervised = isSupervised()
  if (supervised) {
    process.on('disconnect', () => process.exit(0))
    // The supervisor may have been killed while this process loaded.
    if (!process.connected) process.exit(0)
  }
  const log = createLog(name, config.logLevel)
  const context = await openContext(name, config, log, createRegistry(name))
  const probes = await startProbes(name, context)
  await awaitCatalog(context)
  await requireCurrentTables(context.catalog)
  await followKeys(name, context.catalog, context.secrets, (error) =>
    log.error({ err: error }, 'could not read the keys again'),
  )
  const part = await start(context, probes.probes)
  probes.missing(undefined)
  let stopping = false
  let draining = false
  const stop = async (): Promise<void> => {
    if (stopping) return
    stopping = true
    await part.stop()
    await probes.stop()
    await context.catalog.close()
    process.exit(0)
  }
  const drain = async (): Promise<void> => {
    if (!part.drain || draining) return stop()
    draining = true
    const drained = part.drain()
    if (supervised) {
      // The replacement needs this port for metrics.
      await probes.stop()
      notifySupervisor({ draining: true })
    } else probes.missing('it was told to end and takes no new connections')
    await drained
    await stop()
  }
  const orFail = (leave: () => Promise<void>) => () =>
    void leave().catch((error: unknown) => {
      log.error({ err: error }, 'did not stop cleanly')
      process.exit(1)
    })
  process.on('SIGTERM', orFail(drain))
  process.on('SIGINT', supervised ? () => {} : orFail(stop))
  if (supervised) {
    onStop(orFail(stop))
    notifySupervisor({ ready: true })
  }
  log.info({ port: part.port, metrics_port: probes.port, pid: process.pid }, 'ready')
}

/** A worker's steps each have a transaction: those of starts, of suspends, of other operations, and of copies. */
const connectionsOf = (name: PartName, { workerConcurrency, copies }: Config): number =>
  4 + (name === 'worker' ? 3 * workerConcurrency + copies : workerConcurrency)

/** The context of a part, from its settings. */
export async function openContext(
  name: PartName,
  config: Config,
  log: Logger,
  registry: Registry,
): Promise<Context & { readonly catalog: Catalog; readonly secrets: Secrets }> {
  const secrets = await loadPartSecrets(config.secretFile, name)
  const embedded: EmbeddedLogin = {
    runtimeDir: config.runtimeDir,
    user: name === 'proxy' ? CATALOG_PROXY : CATALOG_ADMIN,
    passwords: secrets.catalogPasswords,
    reload: secrets.reload,
  }
  let countLost = (): void => {}
  const catalog = openCatalog(config.catalogUrl ?? embedded, connectionsOf(name, config), (error) => {
    countLost()
    log.warn({ err: error }, 'a connection to the catalog was lost')
  })
  countLost = createConnectionMetrics(registry, () => catalog.connections())
  return { catalog, config, secrets, log, registry }
}
