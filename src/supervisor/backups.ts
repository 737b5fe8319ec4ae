/** The backups of an installation, for its operator. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BackupError, requirePgBackRest } from '../backup/pgbackrest.ts'
import {
  beginSeries,
  configureRepository,
  findRepository,
  forgetRepository,
  newPassphrase,
  openRepository,
  type Repository,
  type RepositoryOptions,
} from '../backup/repository.ts'
import { listBackups, type StoredBackup } from '../backup/stanza.ts'
import { verifyInstallation, verifyStore } from '../backup/verify.ts'
import { type BackupDrill, listDrills, requestDrill } from '../catalog/backup_drill.ts'
import { stopKeepingCatalogWal } from '../catalog/catalog_wal.ts'
import { forgetBackups, listStoreBackups, requestBackups, type StoreBackup } from '../catalog/store_backup.ts'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { withCatalog } from '../rotation/with_catalog.ts'
import { CATALOG } from '../secrets/stores.ts'
import {
  type CatalogBackup,
  type CatalogBackupError,
  readCatalogBackup,
  readCatalogBackupError,
} from './catalog_backup.ts'

export type { StoreBackup } from '../catalog/store_backup.ts'
export type { BackupDrill } from '../catalog/backup_drill.ts'
export type { StoredBackup } from '../backup/stanza.ts'

/**
 * Begins backups to a repository. Returns its passphrase, without which it cannot be read. Errors: UsageError,
 * BackupError (the repository cannot be written to).
 */
export async function initBackups(
  config: Config,
  location: string,
  options: Omit<RepositoryOptions, 'passphrase'> & { readonly passphrase?: string | undefined },
): Promise<string> {
  await requirePgBackRest(config.pgBackRest)
  if (config.catalogUrl !== undefined)
    throw new UsageError('Backups begin with the embedded catalog; yours (NEAP_CATALOG_URL) is not backed up by Neap.')
  if (!existsSync(join(config.dataDir, 'host')))
    throw new UsageError(`There is no Neap in ${config.dataDir}: npx neap up, or name another with --data-dir.`)
  if (await findRepository(config.dataDir, config.pgBackRest))
    throw new UsageError('Backups are made already: npx neap backup status. To end them: npx neap backup end')
  const { passphrase = newPassphrase(), ...access } = options
  await configureRepository(config.dataDir, location, { ...access, passphrase })
  try {
    await tryRepository(await openRepository(config.dataDir, config.pgBackRest, 'trial'))
  } catch (error) {
    await forgetRepository(config.dataDir)
    throw error
  }
  await beginSeries(config.dataDir)
  return passphrase
}

/** Writes a file, reads it and removes it. */
async function tryRepository(repository: Repository): Promise<void> {
  const name = `neap/trial-${randomBytes(4).toString('hex')}`
  const content = randomBytes(16)
  await repository.put(name, content)
  const read = await repository.get(name)
  await repository.run(['repo-rm', name])
  if (!read?.equals(content)) throw new BackupError('The repository does not give back what was written to it.')
}

/** Ends backups. The repository keeps its content. */
export async function endBackups(config: Config): Promise<void> {
  await forgetRepository(config.dataDir)
  await withCatalog(config, async (catalog) => {
    await stopKeepingCatalogWal(catalog)
    await forgetBackups(catalog, null)
  })
}

async function requireRepository(config: Config): Promise<Repository> {
  const repository = await findRepository(config.dataDir, config.pgBackRest)
  if (repository) return repository
  throw new UsageError('No backups are made: npx neap backup init REPOSITORY')
}

const LOOK_MS = 500

/** The state of the backups of a running Neap. */
export interface BackupReport {
  /** Null before its first backup. */
  readonly catalog: Pick<CatalogBackup, 'made_at' | 'pushed_at'> | null
  /** Null unless the last try to back it up has failed. */
  readonly catalog_error: CatalogBackupError | null
  readonly branches: readonly StoreBackup[]
}

/** Errors: UsageError. */
export async function readBackups(config: Config): Promise<BackupReport> {
  const { series } = await requireRepository(config)
  const found = await readCatalogBackup(config)
  const branches = await withCatalog(config, (catalog) => listStoreBackups(catalog, series))
  const catalog = found?.series === series ? { made_at: found.made_at, pushed_at: found.pushed_at } : null
  const failed = await readCatalogBackupError(config)
  return { catalog, catalog_error: failed?.series === series ? failed : null, branches }
}

/** A worker takes a drill up within so long, unless it makes another. */
const TAKEN_UP_MS = 10_000

/**
 * Has a drill made with the newest backup of a branch, by id or name, and waits for its result.
 * @param tell is told what it waits for
 * Errors: UsageError.
 */
export async function makeDrill(
  config: Config,
  branch: string | undefined,
  tell: (state: string) => void,
): Promise<BackupDrill> {
  await requireRepository(config)
  return withCatalog(config, async (catalog) => {
    const { branches } = await readBackups(config)
    const found = branches.filter(
      ({ branch_id, branch_name }) => branch === undefined || [branch_id, branch_name].includes(branch),
    )
    const [only, ...others] = found
    if (!only || others.length > 0)
      throw new UsageError(
        only
          ? 'There are several such branches: name one by its id.'
          : `There is no ${branch === undefined ? 'branch' : `branch ${branch}`} in the repository.`,
      )
    const id = await requestDrill(catalog, only.branch_id)
    const asked = performance.now()
    const tellOnce = onlyOnce(tell)
    for (;;) {
      const drill = (await listDrills(catalog, only.branch_id)).find((each) => each.id === id)
      if (!drill) throw new UsageError('The branch was deleted meanwhile.')
      if (drill.finished_at !== null) return drill
      if (drill.started_at !== null) tellOnce(`The newest backup of ${only.branch_name} is being restored and checked.`)
      else if (performance.now() - asked > TAKEN_UP_MS) tellOnce(NOT_TAKEN_UP)
      await sleep(LOOK_MS)
    }
  })
}

const NOT_TAKEN_UP =
  'No worker has taken the drill up yet: it makes another one, or does not run (npx neap status). The drill stays due.'

/** Calls `tell` with each text once. */
function onlyOnce(tell: (text: string) => void): (text: string) => void {
  const told = new Set<string>()
  return (text) => {
    if (!told.has(text)) tell(text)
    told.add(text)
  }
}

/** Has another backup made of each branch that was written to. Errors: UsageError. */
export async function requestAllBackups(config: Config): Promise<void> {
  await requireRepository(config)
  await withCatalog(config, (catalog) => requestBackups(catalog))
}

/** A backup in the repository, with its branch. */
export type ListedBackup = StoredBackup & Pick<StoreBackup, 'branch_id' | 'branch_name' | 'project_id'>

/** The backups of a running Neap's branches. Errors: UsageError, BackupError. */
export async function listAllBackups(config: Config): Promise<ListedBackup[]> {
  const repository = await requireRepository(config)
  const listed: ListedBackup[] = []
  for (const { store_id, branch_id, branch_name, project_id } of (await readBackups(config)).branches)
    for (const backup of await listBackups(repository, store_id))
      listed.push({ ...backup, branch_id, branch_name, project_id })
  return listed
}

/** The result of the verification of a branch, the catalog or the installation's files. */
export interface Verified {
  readonly name: string
  readonly is_good: boolean
  /** Empty when it is good. */
  readonly report: string
}

/** Reads all that the repository has of a running Neap, and checks it. Errors: UsageError, BackupError. */
export async function verifyBackups(config: Config, tell: (verified: Verified) => void): Promise<boolean> {
  const repository = await requireRepository(config)
  const { catalog, branches } = await readBackups(config)
  let isAllGood = true
  const check = async (name: string, problems: Promise<string[]>): Promise<void> => {
    const report = (await problems).join('\n')
    isAllGood &&= report === ''
    tell({ name, is_good: report === '', report })
  }
  if (catalog) {
    await check('the keys', verifyInstallation(repository))
    await check('the catalog', verifyStore(repository, CATALOG, catalog.pushed_at !== null))
  }
  for (const { store_id, branch_name, label, pushed_at } of branches)
    if (label !== null) await check(branch_name, verifyStore(repository, store_id, pushed_at !== null))
  return isAllGood
}
