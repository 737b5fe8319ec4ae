import { join } from 'node:path'
import { localComputes } from '../compute/process/local_computes.ts'
import { UnknownKeyError } from '../host/failures.ts'
import { ensureDefaultAccount } from '../catalog/account.ts'
import { hasApiKeys, insertApiKey, listApiKeys, revokeApiKey } from '../catalog/api_key.ts'
import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { migrate } from '../catalog/migrate.ts'
import { setProxyPassword } from '../catalog/proxy_role.ts'
import { hasFirstSeals } from '../catalog/sealed_rows.ts'
import { makeClient } from '../client.ts'
import { adminSocket, type Config } from '../config.ts'
import { SETTINGS } from '../settings.ts'
import { AppError, messageOf, UsageError } from '../errors.ts'
import { chosenPrograms } from '../host/binaries.ts'
import { hostId } from '../host/id.ts'
import { layoutOf } from '../host/layout.ts'
import { noteProcess } from '../host/process_start.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { apiOrigin, certifiedHosts, isOpen, publicHost, reachOf } from '../public_address.ts'
import { resealAll } from '../rotation/reseal.ts'
import { makeStartRoom } from '../disk_reserve.ts'
import { newApiKey } from '../secrets/generated.ts'
import { writePartKeys } from '../secrets/part_keys.ts'
import { readOrCreateRing } from '../secrets/ring.ts'
import { loadOrCreateSecrets, type Secrets } from '../secrets/secrets.ts'
import { closeImage, openImage } from '../storage/image/open.ts'
import { localStorage } from '../storage/local_storage.ts'
import { adviceFor, type CloneMode } from '../storage/report.ts'
import { ensureCertificates } from '../tls/certificates.ts'
import { objectionsTo, operatorFiles, readPair } from '../tls/operator.ts'
import { missingFrom, unwanted, wallTable } from '../walls.ts'
import { keepCatalogBackup } from './catalog_backup.ts'
import { checkCatalogUrl } from './catalog_url.ts'
import {
  checkDataDir,
  checkRuntimeDir,
  lockDataDir,
  makeDirectories,
  readState,
  type State,
  updateState,
} from './data_dir.ts'
import { openEmbeddedCatalog } from './embedded_catalog.ts'
import { followKeys } from './follow_keys.ts'
import { firstProject, type ReadyProject } from './first_project.ts'
import { checkMasterKey } from './master_key.ts'
import { keepRotating, type Parts, proxyCount, startParts } from './parts.ts'
import { choosePort } from './ports.ts'
import type { ProgressReporter } from './progress.ts'
import { endStaleParts } from './stale_parts.ts'
import { removeRuntimeDir } from './runtime_dir.ts'
import { stopUnserved } from './stop_unserved.ts'
import { suspendAll } from './suspend_all.ts'
import { type Undo, undoAll } from './undo.ts'
import { requireRestored } from './unfinished_restore.ts'

export interface UpOptions {
  readonly config: Config
  /** Whether each port was set explicitly, as opposed to defaults. */
  readonly asked: Readonly<
    Record<'apiPort' | 'proxyPort' | 'apiMetricsPort' | 'workerMetricsPort' | 'proxyMetricsPort', boolean>
  >
  readonly project: boolean
  readonly leaveRunning: boolean
  readonly progress: ProgressReporter
  /** Called once, when Neap is ready. */
  readonly onReady: (ready: Ready) => void
}

export interface Ready extends ReadyProject {
  readonly api_url: string
  /** Signs the operator in at the console, once; without a token where no link could be made. */
  readonly console_url: string
  /** Null unless this start created it: only its hash is stored. */
  readonly api_key: string | null
  readonly proxy_host: string
  readonly proxy_port: number
  /** The other port of the proxy, for clients that use the standard port. */
  readonly extra_proxy_port: number | null
  /** The CA file for clients to verify the proxy; null with the operator's certificate: they know its authority. */
  readonly ca_file: string | null
  readonly data_dir: string
  readonly pid: number
}

/**
 * Runs Neap: catalog, api, worker and proxies, each a process of its own that is restarted when it ends. Resolves when
 * `told` has resolved and all have stopped. Errors: UsageError, after the started processes have been stopped.
 */
export async function up(options: UpOptions, told: Promise<unknown>): Promise<void> {
  const { progress } = options
  await refuseBadInput(options)
  const stored = readState(options.config.dataDir)
  makeDirectories(options.config.dataDir, options.config.runtimeDir)
  const undo: Undo[] = []
  try {
    await takeDataDir(options, stored, undo)
    const [supervisor, ...stale] = stored.processes ?? []
    await endStaleParts(supervisor, stale)
    await openStores(options, undo)
    const { config, proxyMetricsPorts } = await chosenPorts(options, stored)
    const { apiPort, proxyPort, apiMetricsPort, workerMetricsPort, proxyMetricsPort } = config
    const ports = { apiPort, proxyPort, apiMetricsPort, workerMetricsPort, proxyMetricsPort, proxyMetricsPorts }
    updateState(config.dataDir, { ...ports, reach: reachOf(config), processes: [noteProcess(process.pid)] })

    await writePartKeys(config.dataDir, await readOrCreateRing(config.secretFile))
    const secrets = await loadOrCreateSecrets(config.secretFile)
    const names = { ...config, hosts: certifiedHosts(config) }
    const own = operatorFiles(config) ? undefined : await ensureCertificates(join(config.dataDir, 'tls'), names)
    const lacks = unwanted(config)
    const programs = chosenPrograms(config.postgres)
    const id = await hostId(config.dataDir)
    const host = { ...config, id, secrets: secrets.stores, lacks, programs, log: () => {} }
    const [storage, computes] = [localStorage(host), localComputes(host)]
    undo.push(() => computes.leave())
    const { target, ...embedded } = await openEmbeddedCatalog(config, secrets, storage, progress).catch(
      (error: unknown) => {
        throw error instanceof UnknownKeyError ? unknownKey(config) : error
      },
    )
    undo.push(() => (options.leaveRunning ? embedded.leave() : embedded.stop()))
    await progress.during('bringing the catalog up to date', migrate(target)).catch((error: unknown) => {
      throw isWrongPassword(error) && !config.catalogUrl ? wrongKey(config) : error
    })
    const missingWalls = missingFrom(await computes.walls())
    const egressMissing = (await computes.whyNoEgress()) ?? null
    const limitError = (await computes.whyNoLimits()) ?? null
    updateState(config.dataDir, { missingWalls, egressMissing, limitError })
    sayPlainly(await storage.cloneMode(), wallTable(missingWalls, egressMissing, limitError), options)
    const catalog = openCatalog(target, 3, () => {})
    undo.push(() => catalog.close())
    await embedded.watch(progress.say)
    if (!config.catalogUrl) await setProxyPassword(catalog, await scramVerifier(secrets.proxyPassword()))
    if (await hasFirstSeals(catalog)) await resealAll(catalog, secrets)
    await followKeys('up', catalog, secrets, (error) => progress.say(`The keys could not be read: ${messageOf(error)}`))
    const key = await firstKey(catalog, secrets, config)
    const isFirstStart = readState(config.dataDir).isFirstStart === true
    const parts = await progress.during(
      'starting api, worker and proxy',
      startParts(config, proxyMetricsPorts, progress),
    )
    // Copies outlive the worker that requested them.
    undo.push(() => (options.leaveRunning ? Promise.resolve() : storage.stopCopies()))
    undo.push(() => stopParts(parts, catalog, options))
    undo.push(keepRotating(config, progress), keepCatalogBackup({ config, catalog, secrets, say: progress.say }))
    updateState(config.dataDir, { extraProxyPort: parts.extraProxyPort || undefined })
    const project = await firstProject(config, catalog, { make: options.project && isFirstStart }, progress)
    options.onReady({
      api_url: `${apiOrigin(config)}/api/v2`,
      console_url: await signInUrl(config, progress),
      api_key: key,
      proxy_host: isOpen(config) ? publicHost(config) : (config.listen[0] ?? ''),
      proxy_port: config.proxyPort,
      extra_proxy_port: parts.extraProxyPort || null,
      ca_file: own?.caFile ?? null,
      data_dir: config.dataDir,
      ...project,
      pid: process.pid,
    })
    parts.startRest()
    if (key !== null) updateState(config.dataDir, { isFirstStart: false, isKeyDue: false })
    await told
  } catch (error) {
    await undoAll(undo).catch((other: unknown) => progress.say(messageOf(other)))
    throw error
  }
  await undoAll(undo)
}

/** Makes this the only Neap of the data directory until the end, with room for its start. Errors: UsageError. */
async function takeDataDir({ config, leaveRunning }: UpOptions, { processes }: State, undo: Undo[]): Promise<void> {
  const lock = await lockDataDir(config.dataDir)
  if (!lock)
    throw new UsageError(
      `Neap runs already on ${config.dataDir} (pid ${processes?.[0]?.pid ?? 'unknown'}). ` +
        'Use that one, or stop it first.',
    )
  undo.push(lock.release)
  undo.push(async () => {
    if (!leaveRunning) await removeRuntimeDir(config.dataDir, config.runtimeDir)
  })
  await makeStartRoom(config)
}

/** Mounts the image that the stores lie in, if they do, until the end. */
async function openStores({ config, leaveRunning, progress }: UpOptions, undo: Undo[]): Promise<void> {
  const warning = await progress.during('mounting the image of the stores', openImage(config.dataDir))
  if (warning) progress.say(warning)
  // In use where computes could not be suspended: the next start finds it mounted.
  undo.push(async () => {
    if (leaveRunning || (await progress.during('unmounting the image of the stores', closeImage(config.dataDir))))
      return
    progress.say('The image of the stores is in use and stays mounted. The next start uses it as it is.')
  })
}

/** Stops the parts so that no new work begins: first those that take requests, last the worker that suspends. */
async function stopParts(parts: Parts, catalog: Catalog, { config, progress, leaveRunning }: UpOptions): Promise<void> {
  await Promise.all([parts.api.stop(), parts.proxies.stop()])
  try {
    if (leaveRunning) return
    const suspends = suspendAll(catalog, await hostId(config.dataDir))
    const left = await progress.during('suspending computes', suspends).catch((error: unknown) => {
      if (!(error instanceof AppError)) throw error
      progress.say('The catalog is away, so computes are left running: the next start finds them.')
      return 0
    })
    if (left > 0) progress.say(`${left} computes could not be suspended; 'neap status' shows them after the next start`)
  } finally {
    await parts.worker.stop()
    if (!leaveRunning)
      await stopUnserved(catalog, layoutOf(config)).catch((error: unknown) => {
        if (!(error instanceof AppError)) throw error
      })
  }
}

const isWrongPassword = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === '28P01'

const wrongKey = ({ secretFile, dataDir }: Config): UsageError =>
  new UsageError(`The key in ${secretFile} is not the one that ${dataDir} was made with: put that one back.`)

/** Either of two files may be another than the one that the catalog was made with. */
const unknownKey = (config: Config): UsageError =>
  new UsageError(
    `${wrongKey(config).message} If it is, ${join(config.dataDir, 'catalog', 'password_of')}, which names the key, ` +
      'was changed: put that back.',
  )

/** Reports at the terminal which features this machine lacks. */
function sayPlainly(storage: CloneMode, walls: string, { config: { dataDir }, progress: { say } }: UpOptions): void {
  if (walls) say(walls)
  if (storage === 'copy')
    say(`This filesystem cannot clone files: branches are copied byte by byte. ${adviceFor(dataDir) ?? ''}`.trim())
}

/** Errors: UsageError, before any change. */
async function refuseBadInput({ config, asked, progress }: UpOptions): Promise<void> {
  checkDataDir(config.dataDir)
  requireRestored(config.dataDir)
  checkRuntimeDir(config.runtimeDir)
  const operators = operatorFiles(config)
  if (operators)
    objectionsTo(await readPair(operators), operators, `ep.${config.region}.${config.domain}`).forEach(progress.say)
  await checkMasterKey(config)
  if (config.catalogUrl) await checkCatalogUrl(config.catalogUrl)
  const places = { addresses: config.listen, asked: true }
  if (asked.apiPort)
    await choosePort({ name: 'the API', flag: '--api-port', port: config.apiPort, ...places }, [], progress.say)
  if (asked.proxyPort)
    await choosePort({ name: 'the proxy', flag: '--proxy-port', port: config.proxyPort, ...places }, [], progress.say)
}

/**
 * The explicitly set port, else the stored one, else the default; 0 keeps the stored one, so that a picked port stays.
 */
async function chosenPorts(
  { config, asked, progress }: UpOptions,
  stored: State,
): Promise<{ config: Config; proxyMetricsPorts: readonly number[] }> {
  const { listen: addresses } = config
  const api = wanted(asked.apiPort, config.apiPort, stored.apiPort)
  const apiPort = await choosePort({ name: 'the API', flag: '--api-port', addresses, ...api }, [], progress.say)
  const proxy = wanted(asked.proxyPort, config.proxyPort, stored.proxyPort)
  const proxyPort = await choosePort(
    { name: 'the proxy', flag: '--proxy-port', addresses, ...proxy },
    [apiPort],
    progress.say,
  )
  // Keep metrics off the default ports of API and proxy: the README's commands name those.
  const taken = [apiPort, proxyPort, SETTINGS.apiPort.fallback(''), SETTINGS.proxyPort.fallback('')]
  const metrics = async (
    name: 'apiMetricsPort' | 'workerMetricsPort' | 'proxyMetricsPort',
    least?: number,
  ): Promise<number> => {
    const port = least ?? wanted(asked[name], config[name], stored[name]).port
    // A metrics port must not prevent the start: a taken one is replaced, set explicitly or not.
    const chosen = await choosePort({ name: 'metrics', flag: SETTINGS[name].env, port, asked: false }, taken, () => {})
    taken.push(chosen)
    return chosen
  }
  const apiMetricsPort = await metrics('apiMetricsPort')
  const workerMetricsPort = await metrics('workerMetricsPort')
  const proxyMetricsPort = await metrics('proxyMetricsPort')
  const proxyMetricsPorts = [proxyMetricsPort]
  while (proxyMetricsPorts.length < proxyCount(config))
    proxyMetricsPorts.push(await metrics('proxyMetricsPort', (proxyMetricsPorts.at(-1) ?? 0) + 1))
  return {
    config: { ...config, apiPort, proxyPort, apiMetricsPort, workerMetricsPort, proxyMetricsPort },
    proxyMetricsPorts,
  }
}

function wanted(asked: boolean, port: number, stored: number | undefined) {
  const explicit = asked && port !== 0
  return { port: explicit ? port : (stored ?? port), asked: explicit }
}

/** A link that signs the operator in. A catalog that takes no writes, as on a full disk, does not prevent the start. */
async function signInUrl(config: Config, { say }: ProgressReporter): Promise<string> {
  try {
    return (await makeClient({ socket: adminSocket(config) })('POST /sign_in_links', {})).url
  } catch (error) {
    say(`No sign-in link could be made: ${messageOf(error)}. Make one later with: npx neap sign-in`)
    return `${apiOrigin(config)}/`
  }
}

const FIRST_KEY = 'first'

/**
 * The key of the first start, or of the one after a lost master key; only its hash is stored. A key that was created
 * but never shown is replaced. Returns null when no key is due.
 */
async function firstKey(catalog: Catalog, secrets: Secrets, { dataDir, plan }: Config): Promise<string | null> {
  const { isFirstStart, isKeyDue } = readState(dataDir)
  if (!isFirstStart && !isKeyDue && (await hasApiKeys(catalog))) return null
  if (!isKeyDue) updateState(dataDir, { isFirstStart: true })
  const key = newApiKey()
  await catalog.transaction(async (tx) => {
    const { id: account_id } = await ensureDefaultAccount(tx, plan)
    for (const unseen of await listApiKeys(tx, account_id)) {
      if (unseen.name === FIRST_KEY) await revokeApiKey(tx, account_id, unseen.id)
    }
    await insertApiKey(tx, { account_id, name: FIRST_KEY, scope: 'admin', ...secrets.hashApiKey(key)[0] })
  })
  return key
}
