/**
 * Files of an installation beside its data: its keys, certificates and ports, and the facts that tell it from
 * others.
 */
import { UsageError } from '../errors.ts'
import type { Repository } from './repository.ts'
import { fetchWalEnd } from './wal_end.ts'

/** The machine of a series. */
export interface SeriesFacts {
  readonly host_id: string
  readonly hostname: string
  /** The days for which its backups are kept. */
  readonly kept_days?: number
}

const facts = (series: string): string => `neap/${series}/facts`
const files = (series: string): string => `neap/${series}/files`

export async function describeSeries(repository: Repository, described: SeriesFacts): Promise<void> {
  await repository.put(facts(repository.series), Buffer.from(JSON.stringify(described)))
}

/** The machine of a series; undefined when that is not there. Errors: BackupError, UsageError. */
export async function findSeries(repository: Repository): Promise<SeriesFacts | undefined> {
  const described = await repository.get(facts(repository.series))
  return described && (JSON.parse(described.toString('utf8')) as SeriesFacts)
}

/** Files of an installation by their paths in its data directory. */
export type InstallationFiles = ReadonlyMap<string, Buffer>

export const textOf = (content: InstallationFiles): string =>
  JSON.stringify([...content].map(([path, each]) => [path, each.toString('base64')]))

export const pushFiles = (repository: Repository, text: string): Promise<void> =>
  repository.put(files(repository.series), Buffer.from(text))

/** Undefined when they are not there. Errors: BackupError, UsageError. */
export async function fetchFiles(repository: Repository): Promise<InstallationFiles | undefined> {
  const content = await repository.get(files(repository.series))
  if (!content) return undefined
  const entries = JSON.parse(content.toString('utf8')) as [string, string][]
  return new Map(entries.map(([path, each]) => [path, Buffer.from(each, 'base64')]))
}

/** A series in a repository. */
export interface FoundSeries extends SeriesFacts {
  readonly series: string
  /** When the catalog's WAL there ends. RFC 3339. */
  readonly read_at: string
}

/**
 * The series in a repository that can be restored, the latest last. Those under another passphrase are left out, unless
 * all are. Errors: BackupError, UsageError (the passphrase is another).
 */
export async function listSeries(repository: Repository, catalog: string): Promise<FoundSeries[]> {
  const found: FoundSeries[] = []
  let closed: UsageError | undefined
  for (const series of (await repository.list('neap')).filter((name) => /^[0-9a-f]{8}$/.test(name))) {
    try {
      const described = await findSeries({ ...repository, series })
      const end = await fetchWalEnd({ ...repository, series }, catalog)
      if (described && end) found.push({ ...described, series, read_at: end.read_at })
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      closed = error
    }
  }
  if (found.length === 0 && closed) throw closed
  return found.toSorted((one, other) => one.read_at.localeCompare(other.read_at))
}
