/**
 * The part of the repository for a store, or for the catalog: a stanza of pgBackRest. Branches share a system
 * identifier, so neither Postgres nor pgBackRest tells their backups apart: names do, and an annotation of each backup
 * names its store.
 */
import { mkdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readSmallFile } from '../postgres/small_file.ts'
import { segmentPosition } from '../postgres/wal.ts'
import { measureDataDirectory } from '../storage/measure.ts'
import type { Recovery } from '../storage/replay.ts'
import { BackupError } from './pgbackrest.ts'
import type { Repository } from './repository.ts'

/** A copy of a data directory at rest: a base (storage/base.ts). */
export interface BackupSource {
  readonly pgdata: string
  /** It holds every commit before then, and no commit after `made_at`. RFC 3339. */
  readonly started_at: string
  readonly made_at: string
  /** It leads to any position from `lsn` on, with the WAL from `segment` on. */
  readonly lsn: string
  readonly segment: string
  /** Of a directory whose first start is to replay WAL that lies in it: its task (storage/replay.ts). */
  readonly recovery?: Recovery | undefined
}

/** A backup in the repository. */
export interface StoredBackup extends Omit<BackupSource, 'pgdata'> {
  /** Its name in its stanza. */
  readonly label: string
  readonly kind: 'full' | 'diff' | 'incr'
  /** Its file backup_label, which pgBackRest leaves out; null for that of a server that had stopped. */
  readonly backup_label: string | null
  /** The bytes of the data directory, and those that it takes in the repository. */
  readonly bytes: number
  readonly stored_bytes: number
}

export const stanzaOf = ({ series }: Pick<Repository, 'series'>, store: string): string => `${series}-${store}`

/** A full backup is made anew so often: later ones refer to it. */
const FULL_EACH_MS = 6 * 86_400_000

/** Postgres writes some hundred. */
const MAX_LABEL_BYTES = 4_096

/** pgBackRest reads files as far as they go, also where they have no blocks. Errors: BackupError. */
async function requirePlausibleSize(pgdata: string): Promise<void> {
  const [{ bytes }, { blocks, bsize }] = await Promise.all([measureDataDirectory(pgdata), statfs(pgdata)])
  if (bytes > blocks * bsize)
    throw new BackupError('The files of the branch are larger than its disk, so they are not backed up.')
}

/**
 * Writes a backup of a base to the repository, with the changes since the last backup. Returns undefined if the base
 * did not stay as it was until the end: pgBackRest leaves out what is removed meanwhile, without a word. Errors:
 * BackupError.
 */
export async function takeBackup(
  repository: Repository,
  store: string,
  source: BackupSource,
  hasStayed: () => boolean,
): Promise<StoredBackup | undefined> {
  const { run } = repository
  const stanza = `--stanza=${stanzaOf(repository, store)}`
  const { pgdata, recovery, ...facts } = source
  await requirePlausibleSize(pgdata)
  const encoded = {
    label: (await readSmallFile(join(pgdata, 'backup_label'), MAX_LABEL_BYTES))?.toString('base64'),
    recovery: recovery && Buffer.from(JSON.stringify(recovery)).toString('base64'),
  }
  const place = ['--no-online', `--pg1-path=${pgdata}`]
  await run(['stanza-create', stanza, ...place])
  const before = await listBackups(repository, store)
  const full = before.findLast(({ kind }) => kind === 'full')
  const isFullDue = !full || Date.parse(source.made_at) - Date.parse(full.made_at) >= FULL_EACH_MS
  const annotations = Object.entries({ store, ...facts, ...encoded }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--annotation=${nameOf(name)}=${value}`],
  )
  const type = `--type=${isFullDue ? 'full' : 'incr'}`
  const isNew = await run(['backup', stanza, ...place, type, ...annotations]).then(() => true, isUnchanged)
  const [oldest, ...later] = await listBackups(repository, store)
  const taken = later.at(-1) ?? oldest
  if (!oldest || !taken) throw new BackupError('pgBackRest has made a backup and does not list it')
  if (!hasStayed()) {
    if (isNew) await voidBackup(repository, store, taken.label)
    return undefined
  }
  await expireWal(repository, store, oldest.segment)
  return taken
}

/** The backup before serves as well: there is no new one. */
function isUnchanged(error: unknown): false {
  if (error instanceof BackupError && /no files have changed/.test(error.message)) return false
  throw error
}

/** An annotation's name has no underscore. */
const nameOf = (name: string): string => name.replaceAll('_', '-')

interface Info {
  readonly backup: readonly {
    readonly label: string
    readonly type: StoredBackup['kind']
    readonly error: boolean | null
    readonly annotation?: Readonly<Record<string, string>>
    readonly info: { readonly size: number; readonly repository: { readonly delta: number } }
  }[]
}

/** The backups of a store, oldest first. Errors: BackupError. */
export async function listBackups(repository: Repository, store: string): Promise<StoredBackup[]> {
  const { output } = await repository.run(['info', `--stanza=${stanzaOf(repository, store)}`, '--output=json'])
  const [stanza] = JSON.parse(output.toString('utf8')) as Info[]
  return (stanza?.backup ?? []).flatMap(({ label, type, error, annotation = {}, info }) => {
    const { segment, lsn } = annotation
    const backup_label = decoded(annotation['label']) ?? null
    const recovery = decoded(annotation['recovery'])
    const [started_at, made_at] = [annotation['started-at'], annotation['made-at']]
    if (error === true || annotation['store'] !== store || !segment || !lsn || !started_at || !made_at) return []
    const sizes = { bytes: info.size, stored_bytes: info.repository.delta }
    return [
      {
        label,
        kind: type,
        segment,
        lsn,
        started_at,
        made_at,
        backup_label,
        ...sizes,
        ...(recovery && { recovery: JSON.parse(recovery) as Recovery }),
      },
    ]
  })
}

const decoded = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : Buffer.from(text, 'base64').toString('utf8')

/**
 * Voids a backup: it is listed no more. It is removed with its time, since pgBackRest does not remove the last full
 * backup. Errors: BackupError.
 */
async function voidBackup(repository: Repository, store: string, label: string): Promise<void> {
  const of = [`--stanza=${stanzaOf(repository, store)}`, `--set=${label}`]
  await repository.run(['annotate', ...of, '--annotation=store=void'])
}

/** Writes a complete segment of WAL, or the history of a timeline, to the repository. Errors: BackupError. */
export async function pushWalFile(repository: Repository, store: string, name: string, content: Buffer): Promise<void> {
  // pgBackRest takes the file's name for the segment's.
  const directory = join(repository.spool, store)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const file = join(directory, name)
  try {
    await writeFile(file, content, { mode: 0o600 })
    await repository.run(['archive-push', `--stanza=${stanzaOf(repository, store)}`, file])
  } finally {
    await rm(file, { force: true })
  }
}

/**
 * Removes the WAL before the oldest backup. pgBackRest does so by itself only for backups that it has made of a
 * running server.
 */
async function expireWal(repository: Repository, store: string, oldest: string): Promise<void> {
  for (const { segment, path } of await listWal(repository, store))
    if (segmentPosition(segment) < segmentPosition(oldest)) await repository.run(['repo-rm', path])
}

/** The complete segments of WAL of a store in the repository. Errors: BackupError. */
export async function listWal(repository: Repository, store: string): Promise<StoredSegment[]> {
  const archive = `archive/${stanzaOf(repository, store)}`
  const found: StoredSegment[] = []
  for (const version of (await repository.list(archive)).filter((name) => /^\d+-\d+$/.test(name))) {
    for (const group of await repository.list(`${archive}/${version}`)) {
      if (!/^[0-9A-F]{16}$/.test(group)) continue
      const directory = `${archive}/${version}/${group}`
      for (const name of await repository.list(directory))
        if (/^[0-9A-F]{24}-/.test(name)) found.push({ segment: name.slice(0, 24), path: `${directory}/${name}` })
    }
  }
  return found
}

/** A complete segment of WAL, and its path in the repository. */
interface StoredSegment {
  readonly segment: string
  readonly path: string
}
