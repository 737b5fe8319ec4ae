/**
 * The repository of an installation, in the directory `backup` of its data directory: `pgbackrest.conf` says where it
 * is and holds its passphrase, `series` names this installation's backups in it. A restored installation begins a
 * series of its own, so that two machines restored from it never write the same names.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists, replaceFile } from '../durable_file.ts'
import { UsageError } from '../errors.ts'
import { BackupError, pgBackRest, type PgBackRest } from './pgbackrest.ts'
import { type RepositoryAccess, repositoryOptions } from './location.ts'
import { openSealed, seal, sealingKey } from './sealed.ts'

export interface Repository {
  readonly series: string
  /** The days for which backups are kept. */
  readonly keptDays: number
  /** Files that are to be written to it. */
  readonly spool: string
  readonly run: PgBackRest
  /** Writes a small file, sealed under the passphrase; it opens only by the same name. */
  put(name: string, content: Buffer): Promise<void>
  /** Reads such a file; undefined when it is not there. Errors: UsageError (the passphrase is another). */
  get(name: string): Promise<Buffer | undefined>
  /** The names of files and directories in a directory of it. */
  list(path: string): Promise<string[]>
}

const directoryIn = (dataDir: string): string => join(dataDir, 'backup')
const configIn = (dataDir: string): string => join(directoryIn(dataDir), 'pgbackrest.conf')
/** Says that the repository has a series: a directory without it is another one, or not mounted. */
const begunIn = (dataDir: string, series: string): string => join(directoryIn(dataDir), `begun-${series}`)
const seriesIn = (dataDir: string): string => join(directoryIn(dataDir), 'series')

/** A series that is not yet named: a repository to read. */
export const NO_SERIES = ''

export const newPassphrase = (): string => randomBytes(24).toString('base64url')

/** Days for which backups, and the WAL between them, are kept. */
export const KEPT_DAYS = 7

export interface RepositoryOptions extends RepositoryAccess {
  readonly passphrase: string
  readonly keptDays?: number | undefined
}

/** Writes the configuration of a repository. Errors: UsageError. */
export async function configureRepository(
  dataDir: string,
  location: string,
  { passphrase, keptDays = KEPT_DAYS, ...access }: RepositoryOptions,
): Promise<void> {
  const directory = directoryIn(dataDir)
  const options = {
    ...repositoryOptions(location, access),
    'repo1-cipher-type': 'aes-256-cbc',
    'repo1-cipher-pass': passphrase,
    'repo1-bundle': 'y',
    'repo1-block': 'y',
    'repo1-retention-full-type': 'time',
    'repo1-retention-full': String(keptDays),
    'compress-type': 'zst',
    'archive-check': 'n',
    'lock-path': join(directory, 'lock'),
    'spool-path': join(directory, 'spool'),
    'log-path': join(directory, 'log'),
    'log-level-file': 'off',
    'log-level-console': 'off',
    'log-level-stderr': 'error',
  }
  for (const value of Object.values(options))
    if (/[\n\r]/.test(value)) throw new UsageError('A line break is no part of the name of a repository.')
  const lines = Object.entries(options).map(([name, value]) => `${name}=${value}\n`)
  for (const path of [directory, join(directory, 'spool')]) await mkdir(path, { recursive: true, mode: 0o700 })
  await replaceFile(configIn(dataDir), 0o600, Buffer.from(`[global]\n${lines.join('')}`))
}

/** Begins a series of backups. */
export async function beginSeries(dataDir: string): Promise<string> {
  const series = randomBytes(4).toString('hex')
  await replaceFile(seriesIn(dataDir), 0o600, Buffer.from(series))
  return series
}

/** Notes that the repository has files of a series. */
export async function noteBegun(dataDir: string, series: string): Promise<void> {
  const file = begunIn(dataDir, series)
  if (!existsSync(file)) await replaceFile(file, 0o600, Buffer.alloc(0))
}

/** Forgets the repository: no more backups are made. Its content stays. */
export async function forgetRepository(dataDir: string): Promise<void> {
  const series = (await readIfExists(seriesIn(dataDir)))?.toString('utf8')
  if (series !== undefined) await rm(begunIn(dataDir, series), { force: true })
  await rm(seriesIn(dataDir), { force: true })
  await rm(configIn(dataDir), { force: true })
}

/** Whether backups are made of this data directory. */
export const hasRepository = async (dataDir: string): Promise<boolean> =>
  (await readIfExists(seriesIn(dataDir))) !== undefined

/**
 * The repository of this data directory; undefined unless backups are made.
 * @param known the last result: it is returned while it is the same
 * @param signal ends its calls early
 */
export async function findRepository(
  dataDir: string,
  program: string,
  known?: Repository,
  signal?: AbortSignal,
): Promise<Repository | undefined> {
  const series = (await readIfExists(seriesIn(dataDir)))?.toString('utf8')
  if (series === undefined || series === known?.series) return series === undefined ? undefined : known
  return openRepository(dataDir, program, series, signal)
}

/** The repository that is configured, of any series. Its calls fail with BackupError while its directory is away. */
export async function openRepository(
  dataDir: string,
  programPath: string,
  series: string,
  signal?: AbortSignal,
): Promise<Repository> {
  const config = await readFile(configIn(dataDir), 'utf8')
  const directory = optionIn(config, 'repo1-type') === 'posix' ? optionIn(config, 'repo1-path') : undefined
  const program = pgBackRest(programPath, configIn(dataDir), signal)
  const run: PgBackRest = async (args, options) => {
    // pgBackRest would make the directory anew, and backups there would be missing once the other is back.
    if (directory !== undefined && !existsSync(join(directory, 'neap', series)) && existsSync(begunIn(dataDir, series)))
      throw new BackupError(`The repository ${directory} is not there: it has no backups of this Neap. Is it mounted?`)
    return program(args, options)
  }
  const key = sealingKey(optionIn(config, 'repo1-cipher-pass'))
  return {
    series,
    keptDays: Number(optionIn(config, 'repo1-retention-full')),
    spool: join(directoryIn(dataDir), 'spool'),
    run,
    put: async (name, content) => void (await run(['repo-put', '--raw', name], { input: seal(key, content, name) })),
    async get(name) {
      const { output } = await run(['repo-get', '--raw', '--ignore-missing', name], { codes: [0, 1] })
      return output.length === 0 ? undefined : openSealed(key, output, name)
    },
    async list(path) {
      const { output } = await run(['repo-ls', path])
      return output.toString('utf8').split('\n').filter(Boolean)
    },
  }
}

const optionIn = (config: string, name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(config)?.[1] ?? ''
