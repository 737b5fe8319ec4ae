import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../durable_file.ts'
import { syncFilesystem } from '../host/durable.ts'
import { lsnPosition, nextSegment, segmentPosition, timelineOf } from '../postgres/wal.ts'
import { noteRecovery, type Recovery, RECOVERY_SIGNAL } from '../storage/replay.ts'
import { NO_EARLIER_TIMELINE } from '../storage/wal_archive.ts'
import { BackupError } from './pgbackrest.ts'
import type { Repository } from './repository.ts'
import { listBackups, listWal, stanzaOf, type StoredBackup } from './stanza.ts'
import { fetchWalEnd, type WalEnd, wholeSegment } from './wal_end.ts'

/** A data directory as it was when the repository had its last WAL. */
export interface FetchedStore {
  readonly backup: StoredBackup
  /** It holds every commit until then; null: until the backup was made. RFC 3339. */
  readonly until: string | null
}

/** WAL is gone from the repository. */
export class GapError extends BackupError {}

const NOT_THERE = 1

/**
 * Makes the data directory of a store from its newest backup and the WAL after that, which its first start replays.
 * A directory that is there already is left as it is. Returns undefined when the repository has no backup of it from
 * before the moment.
 * @param at the moment to which it is replayed, RFC 3339; without it all that the repository has. A moment between the
 *   backup of a branch that had never been started and the next one leads to that backup
 * Errors: BackupError, GapError, UsageError, the system's.
 */
export async function fetchStore(
  repository: Repository,
  store: string,
  home: string,
  at?: string,
): Promise<FetchedStore | undefined> {
  const backups = await listBackups(repository, store)
  // Milliseconds round down.
  const atMs = at === undefined ? Infinity : Date.parse(at)
  const backup = backups.findLast(({ made_at }) => Date.parse(made_at) < atMs)
  if (!backup) return undefined
  const end = await fetchWalEnd(repository, store)
  const until = end && isLater(end, backup) ? end.read_at : null
  const fetched = { backup, until: at !== undefined && until !== null && Date.parse(until) > atMs ? at : until }
  if (existsSync(join(home, 'pgdata'))) return fetched
  const making = join(home, 'pgdata.making')
  // The pgBackRest of a killed restore may be ending.
  await rm(making, { recursive: true, force: true, maxRetries: 5 })
  await mkdir(making, { recursive: true, mode: 0o700 })
  const stanza = [`--stanza=${stanzaOf(repository, store)}`, `--pg1-path=${making}`]
  await repository.run(['restore', ...stanza, `--set=${backup.label}`, '--type=none'])
  if (backup.backup_label !== null) await writeFile(join(making, 'backup_label'), backup.backup_label, { mode: 0o600 })
  const beyond = backups.find(({ started_at }) => Date.parse(started_at) > atMs)
  const upto = beyond && (lsnPosition(beyond.lsn) ?? undefined)
  const place = { store, stanza, backup, end, making, upto, isWhole: at === undefined }
  const target = at === undefined ? {} : { target: { timestamp: at } }
  const recovery = backup.recovery ?? { ...(await fetchWal(repository, place)), ...target }
  await writeFile(join(making, RECOVERY_SIGNAL), '', { mode: 0o600 })
  await noteRecovery(home, recovery)
  await syncFilesystem(making)
  await rename(making, join(home, 'pgdata'))
  await syncDirectory(home)
  return fetched
}

/** A backup itself holds WAL up to its own position. */
const isLater = (end: WalEnd, backup: StoredBackup): boolean =>
  !backup.recovery && (lsnPosition(end.lsn) ?? 0) > (lsnPosition(backup.lsn) ?? 0)

interface WalPlace {
  readonly store: string
  readonly stanza: readonly string[]
  readonly backup: StoredBackup
  readonly end: WalEnd | undefined
  /** The data directory. */
  readonly making: string
  /** All WAL that is needed begins before this position; undefined: all that there is. */
  readonly upto: number | undefined
  /** All WAL that the repository has is needed: no segment may be behind a gap. */
  readonly isWhole: boolean
}

/** Puts the WAL after a backup into its data directory. Errors: BackupError, GapError. */
async function fetchWal(
  repository: Repository,
  { store, stanza, backup, end, making, upto = Infinity, isWhole }: WalPlace,
): Promise<Recovery> {
  const wal = join(making, 'pg_wal')
  const timeline = timelineOf(backup.segment)
  const history = `${timeline}.history`
  if (parseInt(timeline, 16) > 1 && !(await fetchWalFile(repository, stanza, wal, history)))
    await writeFile(join(wal, history), NO_EARLIER_TIMELINE, { mode: 0o600 })
  const stored = new Set((await listWal(repository, store)).map(({ segment }) => segment))
  let [last, isArchived] = [backup.segment, false]
  for (let name = last; segmentPosition(name) < upto && stored.has(name); name = nextSegment(name)) {
    if (!(await fetchWalFile(repository, stanza, wal, name))) break
    ;[last, isArchived] = [name, true]
  }
  const next = isArchived ? nextSegment(last) : last
  const isBeyond = (name: string) => timelineOf(name) === timeline && segmentPosition(name) > segmentPosition(next)
  // Replay would end at a gap without a word.
  const gap = new GapError(`the repository has a gap in its WAL, after ${last}`)
  if (isWhole && [...stored].some(isBeyond)) throw gap
  if (
    end &&
    isLater(end, backup) &&
    segmentPosition(next) < upto &&
    segmentPosition(end.segment) >= segmentPosition(next)
  ) {
    if (end.segment !== next) throw gap
    await writeFile(join(wal, end.segment), wholeSegment(end.content), { mode: 0o600 })
    last = end.segment
  }
  return { timeline, last: segmentPosition(last) }
}

/** Returns false when the repository does not have it. */
async function fetchWalFile(
  repository: Repository,
  stanza: readonly string[],
  wal: string,
  name: string,
): Promise<boolean> {
  const path = join(wal, name)
  const { code } = await repository.run(['archive-get', ...stanza, name, path], { codes: [0, NOT_THERE] })
  return code === 0
}
