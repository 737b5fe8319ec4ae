import { availableParallelism } from 'node:os'
import { hasRepository } from '../backup/repository.ts'
import { countFailedDrills } from '../catalog/backup_drill.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { countBehind } from '../catalog/store_backup.ts'
import { localComputes } from '../compute/process/local_computes.ts'
import { checkChosen, chosenPrograms } from '../host/binaries.ts'
import { ConfigurationError } from '../host/failures.ts'
import { FencedError } from '../host/fence.ts'
import type pino from 'pino'
import { recordEgressError, recordPgVersions } from '../catalog/host.ts'
import type { Config } from '../config.ts'
import type { Context, WorkerContext } from '../context.ts'
import type { Due } from '../engine/claim.ts'
import { OperationFailed } from '../engine/definition.ts'
import { type RunnerOptions, startRunner } from '../engine/runner.ts'
import { UsageError } from '../errors.ts'
import { hostId } from '../host/id.ts'
import { uidRange } from '../host/uids.ts'
import { adopt, startSweepLoop } from '../loops/adoption.ts'
import { startArchiveLoop } from '../loops/archive.ts'
import { startAutoscaleLoop } from '../loops/autoscale.ts'
import { startAvailabilityLoop } from '../loops/availability.ts'
import { startBackupLoop } from '../loops/backups.ts'
import { explainFence } from '../loops/catalog_age.ts'
import { startCrashLoop } from '../loops/crash.ts'
import { startExpiryLoop } from '../loops/expiry.ts'
import { startSnapshotLoop } from '../loops/snapshots.ts'
import { startRetentionLoop } from '../loops/retention.ts'
import { startSizeLimitLoop } from '../loops/size_limits.ts'
import { register, startHeartbeat } from '../loops/heartbeat.ts'
import { startDrillLoop } from '../loops/drills.ts'
import { startSpareLoop } from '../loops/spares.ts'
import { startHistoryLoop } from '../loops/history.ts'
import { startIdleLoop } from '../loops/idle.ts'
import { startImageLoop } from '../loops/image.ts'
import { startMeasureLoop } from '../loops/measure.ts'
import { startMeterLoop } from '../loops/meter.ts'
import { startNoticeLoop } from '../loops/notices.ts'
import type { Loop } from '../loops/periodic.ts'
import { startSpaceLoop } from '../loops/space.ts'
import { startWalHistoryLoop } from '../loops/wal_history.ts'
import { startWebhookLoop } from '../loops/webhooks.ts'
import { createComputeMetrics } from '../observe/compute_metrics.ts'
import { createBackupMetrics } from '../observe/backup_metrics.ts'
import { createCopyMetrics } from '../observe/copy_metrics.ts'
import { withoutSecrets } from '../observe/logged_error.ts'
import { createOperationMetrics } from '../observe/operation_metrics.ts'
import { ACTIONS } from '../operations/index.ts'
import { openImage } from '../storage/image/open.ts'
import { localStorage } from '../storage/local_storage.ts'
import { webhookEventView } from '../views/webhook_event.ts'
import { unwanted } from '../walls.ts'
import type { Part } from './part.ts'

/** Interval of tidying, and of the search for newly installed versions of Postgres. */
const HOUSEKEEPING_MS = 60_000
/** More copies than cores bear take from the API and from computes, and end no sooner. */
const [COPIES_PER_CORE, MAX_DEFAULT_COPIES] = [2, 8]

/**
 * The worker: executes operations through the backend and runs the control loops.
 * @param changed overrides options of the runner, for tests that make it fail at chosen steps
 */
export async function startWorker(
  context: Context,
  changed: Partial<RunnerOptions<WorkerContext>> = {},
): Promise<Part> {
  const { catalog, config, secrets, log, registry } = context
  const metrics = createOperationMetrics(
    registry,
    ACTIONS.map(({ action }) => action),
  )
  const host = {
    id: await hostId(config.dataDir),
    dataDir: config.dataDir,
    runtimeDir: config.runtimeDir,
    secrets: secrets.stores,
    lacks: unwanted(config),
    egressAllow: config.egressAllow,
    programs: chosenPrograms(config.postgres),
    log: (level: pino.Level, message: string, facts?: object) => log[level](facts ?? {}, message),
  }
  await checkChosen(host.programs)
  const warning = await openImage(config.dataDir)
  if (warning) log.warn(warning)
  const [storage, computes] = [localStorage(host), localComputes(host)]
  createComputeMetrics(registry, () => computes.readMemory())
  createCopyMetrics(registry, () => storage.runningCopies())
  createBackupMetrics(registry, () => readBackups(catalog, host.id, config))
  const worker: WorkerContext = { ...context, storage, computes, hostId: host.id, uids: uidRange(config) }
  await register(worker)
  // Before the first request for a project.
  await noteVersions(worker)
  const runner = await startRunner<WorkerContext>({
    catalog,
    definitions: ACTIONS,
    context: worker,
    host: host.id,
    concurrency: config.workerConcurrency,
    copies: config.copies || Math.min(COPIES_PER_CORE * availableParallelism(), MAX_DEFAULT_COPIES),
    isTakenOver: (error) => error instanceof FencedError,
    onTakenOver: (operation) => explainFence(worker, operation),
    // A missing program will be missing at the next attempt too.
    isFinal: (error) => error instanceof ConfigurationError || error instanceof UsageError,
    onStep: (operation, moment) => log.debug({ ...factsOf(operation), moment }, 'step'),
    onError: (error, operation) => {
      const expected = error instanceof OperationFailed
      if (operation) metrics.stepFailed(operation.action, operation.step, error)
      log[expected ? 'warn' : 'error'](
        { err: error, ...(operation && factsOf(operation)) },
        operation ? 'a step failed' : 'the worker could not look for operations',
      )
    },
    onEnd: (operation, status) => {
      const seconds = Math.max(0, (Date.now() - Date.parse(operation.started_at)) / 1000)
      metrics.ended(operation.action, seconds, status === 'failed' ? operation : undefined)
      const why = status === 'failed' && { error: operation.error && withoutSecrets(operation.error) }
      log.info({ ...factsOf(operation), status, ms: Math.round(seconds * 1000), ...why }, 'an operation ended')
    },
    ...changed,
  })
  log.info(await adopt(worker), 'reconciled the catalog with this host')
  // Not awaited: it opens egress to test whether it works.
  void noteWhetherEgress(worker)
  const loops = await startLoops(worker)
  const housekeeping = setInterval(() => {
    void computes
      .tidy()
      .catch((error: unknown) => log.warn({ err: error }, 'could not remove what ended computes have left'))
    void noteVersions(worker)
  }, HOUSEKEEPING_MS)
  return {
    async stop() {
      clearInterval(housekeeping)
      await Promise.all(loops.map((loop) => loop.stop()))
      await runner.stop()
    },
  }
}

/** Starts the background loops. */
async function startLoops(worker: WorkerContext): Promise<readonly Loop[]> {
  return [
    await startIdleLoop(worker),
    startHeartbeat(worker),
    await startAutoscaleLoop(worker),
    startAvailabilityLoop(worker),
    startArchiveLoop(worker),
    startSweepLoop(worker),
    await startCrashLoop(worker),
    startRetentionLoop(worker),
    startMeasureLoop(worker),
    startSpaceLoop(worker),
    startImageLoop(worker),
    startSizeLimitLoop(worker),
    startMeterLoop(worker),
    startHistoryLoop(worker),
    startWalHistoryLoop(worker),
    startBackupLoop(worker),
    startDrillLoop(worker),
    startSpareLoop(worker),
    startNoticeLoop(worker),
    startExpiryLoop(worker),
    startSnapshotLoop(worker),
    await startWebhookLoop(worker, (delivery, row) => webhookEventView(worker.config, delivery, row)),
  ]
}

/** Lets the API report to projects with egress enabled why it is missing. */
async function noteWhetherEgress({ computes, catalog, hostId: id, log }: WorkerContext): Promise<void> {
  try {
    await recordEgressError(catalog, id, await computes.whyNoEgress())
  } catch (error) {
    log.warn({ err: error }, 'could not record whether computes can have egress')
  }
}

/** Lets the API refuse versions of Postgres that are not installed. */
async function noteVersions({ storage, catalog, hostId: id, log }: WorkerContext): Promise<void> {
  try {
    const versions = await storage.pgVersions()
    const extensions = await Promise.all(versions.map(async (each) => [each, await storage.extensions(each)] as const))
    await recordPgVersions(catalog, id, versions, Object.fromEntries(extensions))
  } catch (error) {
    log.warn({ err: error }, 'could not record the installed versions of Postgres')
  }
}

/** The state of the backups of this host; undefined without a repository. */
async function readBackups(catalog: Catalog, id: string, { dataDir }: Config) {
  if (!(await hasRepository(dataDir))) return undefined
  return { behind: await countBehind(catalog, id), failedDrills: await countFailedDrills(catalog, id) }
}

/** The fields of every log line about an operation. */
function factsOf({ id, action, step, project_id, branch_id, request_id }: Due) {
  return {
    operation: id,
    action,
    step,
    project: project_id,
    ...(branch_id !== null && { branch: branch_id }),
    ...(request_id !== null && { request_id }),
  }
}
