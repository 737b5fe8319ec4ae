import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { embeddedCatalogUrl } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import { UsageError } from '../errors.ts'
import { createConnectionMetrics } from '../observe/catalog_metrics.ts'
import { createLog } from '../observe/log.ts'
import { createRegistry } from '../observe/registry.ts'
import { loadOrCreateSecrets, type Secrets } from '../secrets.ts'
import { awaitCatalog } from './await_catalog.ts'
import { type PartName, startProbes } from './probes.ts'

/** A running part of Neap. */
export interface Part {
  /** What it says when it is ready: the port it listens on, where it listens. */
  readonly port?: number
  stop(): Promise<void>
}

/**
 * Runs one part in this process until a signal, or until the supervisor that started it is gone. Under a supervisor an
 * interrupt from the terminal is left to it, since it stops the parts in order.
 */
export async function runPart(
  name: PartName,
  config: Config,
  start: (context: Context) => Promise<Part>,
): Promise<void> {
  const supervised = process.send !== undefined
  if (supervised) {
    process.on('disconnect', () => process.exit(0))
    // It may have been killed while this process loaded.
    if (!process.connected) process.exit(0)
  }
  const log = createLog(name, config.logLevel)
  const context = await openContext(config, log, createRegistry(name))
  const probes = await startProbes(name, context)
  await awaitCatalog(context)
  const part = await start(context)
  probes?.started()
  let stopping = false
  const stop = async (): Promise<void> => {
    if (stopping) return
    stopping = true
    await part.stop()
    await probes?.stop()
    await context.catalog.close()
    process.exit(0)
  }
  const stopOrFail = () =>
    void stop().catch((error: unknown) => {
      log.error({ err: error }, 'did not stop cleanly')
      process.exit(1)
    })
  process.on('SIGTERM', stopOrFail)
  process.on('SIGINT', supervised ? () => {} : stopOrFail)
  if (supervised) process.send?.({ ready: true, port: part.port })
  log.info({ port: part.port, metrics_port: probes?.port ?? part.port, pid: process.pid }, 'ready')
}

/** The context of a part, from its settings. */
export async function openContext(
  config: Config,
  log: Logger,
  registry: Registry,
): Promise<Context & { readonly catalog: Catalog; readonly secrets: Secrets }> {
  if (!existsSync(config.secretFile))
    throw new UsageError(
      `There is no ${config.secretFile}: begin with neap up, or copy the key of the Neap that this is to be a part of.`,
    )
  const secrets = await loadOrCreateSecrets(config.secretFile)
  const url = config.catalogUrl ?? embeddedCatalogUrl(config.runtimeDir, secrets.adminPassword())
  let countLost = (): void => {}
  const catalog = openCatalog(url, config.workerConcurrency + 4, (error) => {
    countLost()
    log.warn({ err: error }, 'a connection to the catalog was lost')
  })
  countLost = createConnectionMetrics(registry, () => catalog.connections())
  return { catalog, config, secrets, log, registry }
}
