import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { FileLock } from '../host/file_lock.ts'
import type { ProcessNote } from '../host/process_start.ts'
import { isRoot, SOCKET_PATH_MAX } from '../directories.ts'
import { messageOf, UsageError } from '../errors.ts'
import type { ReachSettings } from '../public_address.ts'

/**
 * The layout of a data directory that this Neap writes; it reads layouts from 1 on. In layout 1, stores and parts had
 * no passwords and keys of their own.
 */
const LAYOUT = 2

/** The state that `neap up` keeps in its data directory from one start to the next. */
export interface State {
  readonly layout: number
  readonly apiPort?: number
  readonly proxyPort?: number
  readonly apiMetricsPort?: number
  readonly workerMetricsPort?: number
  readonly proxyMetricsPort?: number
  /** Of all proxies, in their order. */
  readonly proxyMetricsPorts?: readonly number[]
  /** From the flags and environment of the last start. */
  readonly reach?: ReachSettings
  readonly extraProxyPort?: number | undefined
  readonly projectId?: string | undefined
  /** The walls that computes are without on this machine. */
  readonly missingWalls?: readonly string[]
  /** Why computes with egress enabled cannot have it on this machine; null when they can. */
  readonly egressMissing?: string | null
  /** Why computes are not held to their sizes on this machine; null when they are. */
  readonly limitError?: string | null
  /** True from the first start until its key has been shown: the next start makes up for one that was killed before. */
  readonly isFirstStart?: boolean
  /** True from the replacement of a lost master key, which voids all API keys, until another API key has been shown. */
  readonly isKeyDue?: boolean
  /** The running supervisor and its parts, or those that ran when it was killed. */
  readonly processes?: readonly ProcessNote[]
}

const LOCK_SECONDS = 1

/** Makes this process the only supervisor of a data directory. Returns undefined when another one runs. */
export async function lockDataDir(dataDir: string): Promise<FileLock | undefined> {
  // Loaded here: commands that only read the state do not need it.
  const { takeFileLock } = await import('../host/file_lock.ts')
  return takeFileLock(join(dataDir, 'up.lock'), LOCK_SECONDS)
}

const stateFile = (dataDir: string) => join(dataDir, 'state.json')

/**
 * Checks that a data directory can be used, without changing it.
 * Errors: UsageError (it cannot be written, is not a directory, belongs to another user, is closed to the users of
 * computes, or was written by a newer Neap).
 */
export function checkDataDir(dataDir: string): void {
  const other = 'choose another with --data-dir'
  requireOwn(dataDir, '--data-dir')
  const existing = firstExisting(dataDir)
  if (!statSync(existing).isDirectory()) throw new UsageError(`${existing} is not a directory: ${other}.`)
  try {
    accessSync(existing, constants.W_OK | constants.X_OK)
  } catch {
    throw new UsageError(`The data directory ${dataDir} cannot be written to: make it writable for you, or ${other}.`)
  }
  const closed = isRoot() ? closedAncestor(dataDir) : undefined
  if (closed)
    throw new UsageError(
      `Computes run as users of their own, which cannot pass through ${closed} to ${dataDir}: ${other}.`,
    )
  const { layout } = readState(dataDir)
  if (layout > LAYOUT) {
    throw new UsageError(
      `The data directory ${dataDir} was written by a newer Neap (layout ${layout}; this one knows ${LAYOUT}): ` +
        `start that version, or ${other}.`,
    )
  }
}

/** Errors: UsageError (the path of the sockets' directory is too long). */
export function checkRuntimeDir(runtimeDir: string): void {
  const longest = SOCKET_PATH_MAX - Buffer.byteLength('/b0000000/.s.PGSQL.65535')
  if (Buffer.byteLength(runtimeDir) <= longest) return
  throw new UsageError(
    `The directory for sockets, ${runtimeDir}, has a longer path than Unix sockets allow: ` +
      `name one of at most ${longest} bytes in NEAP_RUNTIME_DIR.`,
  )
}

function firstExisting(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : firstExisting(dirname(path))
}

/** Creates the directories. As root they are open for other users to traverse, since every compute has its own user. */
export function makeDirectories(dataDir: string, runtimeDir: string): void {
  try {
    for (const directory of [dataDir, runtimeDir, join(dataDir, 'parts')]) {
      makeDirectory(directory)
      requireOwn(directory, directory === runtimeDir ? 'NEAP_RUNTIME_DIR' : '--data-dir')
      if (isRoot()) chmodSync(directory, 0o711)
    }
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Cannot make ${dataDir} or ${runtimeDir}: ${messageOf(error)}.`)
  }
}

/** The owner of a directory, or of a link to it, can replace its content. Errors: UsageError (another user owns it). */
function requireOwn(directory: string, setting: string): void {
  if (!existsSync(directory)) return
  for (const { uid } of [lstatSync(directory), statSync(directory)])
    if (uid !== process.getuid?.())
      throw new UsageError(
        `${directory} belongs to another user (uid ${uid}): name a directory of yours in ${setting}.`,
      )
}

/**
 * Level by level: Node's recursive mkdir never returns where the kernel allows no directory, as below /proc. As root
 * they are open for other users to traverse.
 */
function makeDirectory(path: string): void {
  if (existsSync(path)) return
  makeDirectory(dirname(path))
  mkdirSync(path, { mode: 0o700 })
  if (isRoot()) chmodSync(path, 0o711)
}

/** The first directory of a path that other users cannot traverse; as root, the users of computes must. */
function closedAncestor(path: string): string | undefined {
  const parent = dirname(path)
  if (parent === path) return undefined
  return closedAncestor(parent) ?? (existsSync(parent) && (statSync(parent).mode & 0o001) === 0 ? parent : undefined)
}

export function readState(dataDir: string): State {
  const file = stateFile(dataDir)
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  // Earlier versions did not sync the file: a power cut could leave it empty.
  if (text === '') return { layout: LAYOUT }
  try {
    return JSON.parse(text) as State
  } catch (error) {
    throw new UsageError(`${file} cannot be read (${messageOf(error)}): mend or remove it; ports are chosen anew then.`)
  }
}

/** Merges changes into the state and replaces the file: a power cut leaves the old state or the new one. */
export function updateState(dataDir: string, changes: Partial<State>): void {
  const file = stateFile(dataDir)
  const text = `${JSON.stringify({ ...readState(dataDir), ...changes, layout: LAYOUT }, null, 2)}\n`
  try {
    writeFileSync(`${file}.new`, text, { mode: 0o600, flush: true })
  } catch (error) {
    rmSync(`${file}.new`, { force: true })
    throw new UsageError(`${file} cannot be written (${messageOf(error)}): see that its disk has room and inodes.`)
  }
  renameSync(`${file}.new`, file)
}
