/*
 * Restores an installation, or a part of it, from the repository of its backups to an empty data directory: the same
 * ids, hosts and passwords. It may be interrupted, and repeated.
 */
import { existsSync, readdirSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import type { RepositoryAccess } from '../backup/location.ts'
import { fetchStore, GapError } from '../backup/fetch_store.ts'
import { fetchFiles, type FoundSeries, listSeries } from '../backup/installation_files.ts'
import { requirePgBackRest } from '../backup/pgbackrest.ts'
import {
  beginSeries,
  configureRepository,
  forgetRepository,
  NO_SERIES,
  openRepository,
  type Repository,
} from '../backup/repository.ts'
import { listBackups } from '../backup/stanza.ts'
import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { dropSlots } from '../catalog/catalog_wal.ts'
import { findInstallation, raiseEpoch } from '../catalog/installation.ts'
import {
  beginAnew,
  findParts,
  keepOnly,
  listStoresToFetch,
  type RestoredPart,
  type StoreToFetch,
} from '../catalog/restored.ts'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { chosenPrograms } from '../host/binaries.ts'
import { hostId } from '../host/id.ts'
import { homeOf, layoutOf } from '../host/layout.ts'
import { CATALOG } from '../secrets/stores.ts'
import { loadOrCreateSecrets } from '../secrets/secrets.ts'
import { closeImage, openImage } from '../storage/image/open.ts'
import { localStorage } from '../storage/local_storage.ts'
import { lockDataDir, makeDirectories } from './data_dir.ts'
import { openEmbeddedCatalog } from './embedded_catalog.ts'
import { writeInstallationFiles } from './installation_files.ts'
import type { ProgressReporter } from './progress.ts'
import { beginRestore, endRestore, isUnfinished, noteSelection, type Selection } from './unfinished_restore.ts'

export interface RestoreOptions extends RepositoryAccess {
  readonly location: string
  readonly passphrase: string
  readonly selection: Selection
}

/** A restored branch. */
export interface RestoredStore extends Omit<StoreToFetch, 'id'> {
  /** Commits until then are in it. RFC 3339. */
  readonly until: string | null
}

export interface Restored {
  readonly series: string
  readonly hostname: string
  /** The catalog is as it was then. RFC 3339. */
  readonly until: string
  readonly stores: readonly RestoredStore[]
  readonly lost: readonly LostStore[]
}

/** A branch that could not be restored. */
export interface LostStore extends Omit<StoreToFetch, 'id'> {
  readonly reason: string
}

/** Errors: UsageError, BackupError. */
export async function restoreMachine(
  config: Config,
  options: RestoreOptions,
  progress: ProgressReporter,
): Promise<Restored> {
  await requirePgBackRest(config.pgBackRest)
  requireEmpty(config)
  makeDirectories(config.dataDir, config.runtimeDir)
  const lock = await lockDataDir(config.dataDir)
  if (!lock) throw new UsageError(`Neap runs on ${config.dataDir}: name an empty directory with --data-dir.`)
  try {
    await configureRepository(config.dataDir, options.location, options)
    const selection = await beginRestore(config.dataDir, options.selection)
    const warning = await openImage(config.dataDir)
    if (warning) progress.say(warning)
    const { found, repository } = await chooseSeries(config, options.location, selection)
    await noteSelection(config.dataDir, { ...selection, series: found.series })
    const files = await fetchFiles(repository)
    if (!files) throw new UsageError(`The repository has no keys of ${found.series}.`)
    await writeInstallationFiles(config, files)
    const catalogHome = join(layoutOf(config).dataDir, 'catalog')
    const fetching = fetchStore(repository, CATALOG, catalogHome, selection.at)
    const fetched = await progress.during('fetching the catalog', fetching)
    if (!fetched) throw await noCatalog(repository, selection)
    const { stores, lost } = await restoreStores(config, repository, selection, progress)
    if (selection.project === undefined && selection.branch === undefined) {
      await configureRepository(config.dataDir, options.location, { ...options, keptDays: found.kept_days })
      await beginSeries(config.dataDir)
      // A part is used beside the whole, which a later restore is to find as the latest series.
    } else await forgetRepository(config.dataDir)
    await endRestore(config.dataDir)
    const until = fetched.until ?? fetched.backup.made_at
    return { series: found.series, hostname: found.hostname, until, stores, lost }
  } finally {
    await closeImage(config.dataDir)
    await lock.release()
  }
}

/** Names in a data directory before a restore: an image for its stores, and directories that an earlier try made. */
const PREPARED =
  /^(image\..*|image|branches|backup|cache|host|logs|parts|pg|removed|root|templates|trash|up\.lock|lost\+found)$/

/** Errors: UsageError, if Neap has run on a data directory, a restore is complete, or it is used for other things. */
function requireEmpty({ dataDir, runtimeDir, catalogUrl }: Config): void {
  if (catalogUrl !== undefined)
    throw new UsageError('A catalog of your own is restored by its own backups: unset NEAP_CATALOG_URL.')
  const branches = join(dataDir, 'branches')
  // It may be a link into an image that is not mounted, with no branch in it yet.
  const isUsed = existsSync(join(dataDir, 'catalog')) || (existsSync(branches) && readdirSync(branches).length > 0)
  if (isUsed && !isUnfinished(dataDir))
    throw new UsageError(`${dataDir} has the data of a Neap: name an empty directory with --data-dir.`)
  if (!existsSync(dataDir) || isUnfinished(dataDir)) return
  const runtime = resolve(runtimeDir) + sep
  const isOther = (name: string) => !PREPARED.test(name) && !runtime.startsWith(join(resolve(dataDir), name) + sep)
  const other = readdirSync(dataDir).find(isOther)
  if (other !== undefined)
    throw new UsageError(`${dataDir} is not empty, it has ${other}: name an empty directory with --data-dir.`)
}

async function noCatalog(repository: Repository, { at }: Selection): Promise<UsageError> {
  const [first] = await listBackups(repository, CATALOG)
  if (!first || at === undefined)
    return new UsageError(`The repository has no backup of the catalog of ${repository.series}.`)
  return new UsageError(
    `The backups of ${repository.series} begin at ${first.made_at}, and an earlier series is named by --series. ` +
      'Remove the data directory before you try another moment.',
  )
}

async function chooseSeries(
  config: Config,
  location: string,
  { series }: Selection,
): Promise<{ found: FoundSeries; repository: Repository }> {
  const repository = await openRepository(config.dataDir, config.pgBackRest, NO_SERIES)
  const all = await listSeries(repository, CATALOG)
  const found = series === undefined ? all.at(-1) : all.find((each) => each.series === series)
  if (!found)
    throw new UsageError(
      series === undefined
        ? `There are no backups of a Neap in ${location}.`
        : `There is no series ${series} in ${location}: it has ${all.map((each) => each.series).join(', ') || 'none'}.`,
    )
  return { found, repository: { ...repository, series: found.series } }
}

async function restoreStores(config: Config, repository: Repository, selection: Selection, progress: ProgressReporter) {
  const secrets = await loadOrCreateSecrets(config.secretFile)
  const host = await hostId(config.dataDir)
  const programs = chosenPrograms(config.postgres)
  const storage = localStorage({ ...config, id: host, secrets: secrets.stores, programs, log: () => {} })
  const { target, ...server } = await openEmbeddedCatalog(config, secrets, storage, progress)
  const catalog = openCatalog(target, 2, () => {})
  try {
    await keepSelected(catalog, selection)
    const wanted = await listStoresToFetch(catalog, host)
    const stores: RestoredStore[] = []
    const lost: LostStore[] = []
    for (const [index, { id, ...branch }] of wanted.entries()) {
      const home = homeOf(layoutOf(config), id)
      await mkdir(home, { recursive: true, mode: 0o711 })
      const what = `fetching ${branch.branch_name} (${index + 1} of ${wanted.length})`
      const fetching = fetchStore(repository, id, home, selection.at).catch((error: unknown) => {
        // Other errors may pass: the restore is repeated then.
        if (!(error instanceof GapError)) throw error
        return error
      })
      const fetched = await progress.during(what, fetching)
      if (fetched instanceof GapError) lost.push({ ...branch, reason: fetched.message })
      else if (fetched) stores.push({ ...branch, until: fetched.until ?? fetched.backup.made_at })
      else lost.push({ ...branch, reason: 'the repository has no backup of it from then' })
    }
    const { epoch } = await findInstallation(catalog)
    await raiseEpoch(catalog, epoch)
    await dropSlots(catalog)
    await catalog.transaction(beginAnew)
    return { stores, lost }
  } finally {
    await catalog.close()
    await server.stop()
  }
}

/** Errors: UsageError. */
async function keepSelected(catalog: Catalog, { project, branch, at }: Selection): Promise<void> {
  if (project === undefined && branch === undefined) return
  const [part, ...others] = await findParts(catalog, project, branch)
  const name = branch === undefined ? `project ${project}` : `branch ${branch}`
  const then = at === undefined ? 'any more; --at goes back to a time when it had' : `as of ${at}`
  if (!part) throw new UsageError(`The catalog has no ${name} ${then}. Remove the data directory before you try again.`)
  if (others.length > 0)
    throw new UsageError(
      `Several have that name: give the id of one (${[part, ...others].map(idOf).join(', ')}). ` +
        'Remove the data directory before you try again.',
    )
  await catalog.transaction((tx) => keepOnly(tx, part))
}

const idOf = ({ project_id, branch_id }: RestoredPart): string => branch_id ?? project_id
