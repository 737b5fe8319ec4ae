/*
 * Writes the embedded catalog to the repository, as loops/backups.ts does with stores, and the installation's files:
 * without its keys the stores there are of no use.
 */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describeSeries, pushFiles, textOf } from '../backup/installation_files.ts'
import { type PushedWal, pushWal } from '../backup/push_wal.ts'
import { BackupError } from '../backup/pgbackrest.ts'
import { findRepository, noteBegun, type Repository } from '../backup/repository.ts'
import { type StoredBackup, takeBackup } from '../backup/stanza.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { beginToKeepCatalogWal, releaseCatalogWal } from '../catalog/catalog_wal.ts'
import { embeddedSocketDir } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import { readInstallationFiles } from './installation_files.ts'
import { readIfExists, replaceFile } from '../durable_file.ts'
import { messageOf } from '../errors.ts'
import { hostId } from '../host/id.ts'
import { layoutOf, logDirOf } from '../host/layout.ts'
import { lsnText, nextSegment, segmentPosition } from '../postgres/wal.ts'
import { CATALOG } from '../secrets/stores.ts'
import type { Secrets } from '../secrets/secrets.ts'
import { makeBase, removeBases } from '../storage/base.ts'
import { baseOf } from '../storage/base_place.ts'
import type { Undo } from './undo.ts'

const EVERY_MS = 10_000
const HOUR_MS = 3_600_000
const NOTHING: PushedWal = { segment: null, lsn: null, mark: '' }

/** The backup of the catalog, in the file `catalog` beside its configuration. */
export interface CatalogBackup extends Pick<StoredBackup, 'made_at' | 'segment'> {
  readonly series: string
  /** The segment from which on the repository has, or is to have, all WAL; of an earlier backup. */
  readonly first_segment?: string
  readonly pushed_segment: string | null
  /** Commits until then are in the repository; null while only the backup is. RFC 3339. */
  readonly pushed_at: string | null
}

interface Options {
  readonly config: Config
  readonly catalog: Catalog
  readonly secrets: Pick<Secrets, 'stores'>
  readonly say: (line: string) => void
}

/** Backs up the catalog every few seconds while there is a repository. Returns its end. */
export function keepCatalogBackup(options: Options): Undo {
  const { config, say } = options
  if (config.catalogUrl !== undefined) return async () => {}
  let [repository, said, ended]: [Repository | undefined, string, boolean] = [undefined, '', false]
  /** The series and files that were written last. */
  let written = ''
  let before = NOTHING
  let timer: NodeJS.Timeout | undefined
  let round: Promise<void> = Promise.resolve()

  const look = async (): Promise<void> => {
    try {
      repository = await findRepository(config.dataDir, config.pgBackRest, repository)
      if (repository) {
        // Keys before the rows that are sealed under them.
        const text = textOf(await readInstallationFiles(config))
        if (written !== repository.series + text) await pushFiles(repository, text)
        written = repository.series + text
        await noteBegun(config.dataDir, repository.series)
        before = await backUpCatalog(options, repository, before)
      }
      said = ''
      await rm(errorFile(config), { force: true })
    } catch (error) {
      const message = messageOf(error)
      if (message !== said) say(`the catalog could not be backed up: ${message}`)
      said = message
      if (repository) await noteError(config, { series: repository.series, error: message })
    }
    if (!ended) timer = setTimeout(() => void (round = look()), EVERY_MS)
  }
  round = look()
  return async () => {
    ended = true
    clearTimeout(timer)
    await round
  }
}

async function backUpCatalog(options: Options, repository: Repository, before: PushedWal): Promise<PushedWal> {
  const { catalog, config } = options
  const home = join(layoutOf(config).dataDir, 'catalog')
  const file = stateFile(config)
  const isLost = await beginToKeepCatalogWal(catalog)
  const known = await readCatalogBackup(config)
  const isCurrent = known?.series === repository.series && !isLost
  const isOld = !known || Date.now() - Date.parse(known.made_at) > config.backupHours * HOUR_MS
  const state = isCurrent && !isOld ? known : await makeBackup(options, home, repository, isCurrent ? known : undefined)
  const pushed_at = new Date().toISOString()
  const last = state === known && before.segment === state.pushed_segment ? before : undefined
  const pushed = await pushWal(
    repository,
    { id: CATALOG, home, first: state.first_segment ?? state.segment },
    last ?? { ...NOTHING, segment: state.pushed_segment },
  )
  if (pushed === 'missing') {
    await rm(file, { force: true })
    return NOTHING
  }
  const now = { ...state, pushed_segment: pushed.segment, ...(pushed.isWhole && { pushed_at }) }
  await replaceFile(file, 0o600, Buffer.from(JSON.stringify(now)))
  if (pushed.segment !== null) await releaseCatalogWal(catalog, lsnText(segmentPosition(nextSegment(pushed.segment))))
  return pushed
}

/** Why the catalog could not be backed up. */
export interface CatalogBackupError {
  readonly series: string
  readonly at: string
  readonly error: string
}

const errorFile = ({ dataDir }: Config): string => join(dataDir, 'backup/catalog.error')

/** On a full disk it is not noted. */
async function noteError(config: Config, failed: Omit<CatalogBackupError, 'at'>): Promise<void> {
  const noted: CatalogBackupError = { ...failed, at: new Date().toISOString() }
  await replaceFile(errorFile(config), 0o600, Buffer.from(JSON.stringify(noted))).catch(() => {})
}

/** The last failure; undefined after a success. */
export async function readCatalogBackupError(config: Config): Promise<CatalogBackupError | undefined> {
  const text = await readIfExists(errorFile(config))
  return text && (JSON.parse(text.toString('utf8')) as CatalogBackupError)
}

const stateFile = ({ dataDir }: Config): string => join(dataDir, 'backup/catalog')

/** The backup of the catalog; undefined before the first. */
export async function readCatalogBackup(config: Config): Promise<CatalogBackup | undefined> {
  const text = await readIfExists(stateFile(config))
  return text && (JSON.parse(text.toString('utf8')) as CatalogBackup)
}

/** @param before the backup whose WAL goes on */
async function makeBackup(
  { config, secrets }: Options,
  home: string,
  repository: Repository,
  before: CatalogBackup | undefined,
): Promise<CatalogBackup> {
  const layout = layoutOf(config)
  const facts = { hostname: hostname(), kept_days: repository.keptDays }
  await describeSeries(repository, { host_id: await hostId(config.dataDir), ...facts })
  await removeBases(home)
  const number = 1
  const parent = { socketDir: embeddedSocketDir(config.runtimeDir), passwords: secrets.stores.admin(CATALOG) }
  const copy = {
    parent,
    removed: '',
    logFile: join(logDirOf(layout, 'catalog'), 'copy.log'),
    cacheDir: layout.cache,
    cloneKind: async () => 'copy' as const,
  }
  const base = { number, now: new Date().toISOString() }
  let made = await makeBase(home, base, copy)
  while (made === 'pending') made = await makeBase(home, base, copy)
  const pgdata = join(baseOf(home, number), 'pgdata')
  const source = { ...made, pgdata, made_at: new Date().toISOString() }
  const backup = await takeBackup(repository, CATALOG, source, () => existsSync(pgdata))
  if (!backup) throw new BackupError('The copy of the catalog was removed while it was backed up.')
  await removeBases(home)
  const { made_at, segment } = backup
  const wal = {
    first_segment: before?.first_segment ?? before?.segment ?? segment,
    pushed_segment: before?.pushed_segment ?? null,
  }
  return { series: repository.series, made_at, segment, ...wal, pushed_at: null }
}
