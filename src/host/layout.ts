import { join, resolve } from 'node:path'
import { SOCKET_PATH_MAX } from '../directories.ts'
import { UsageError } from '../errors.ts'

/** The uid and gid that own a store's files and run its Postgres. Absent unless Neap runs as root. */
export interface Owner {
  readonly uid: number
  readonly gid: number
}

export type Log = (level: 'debug' | 'info' | 'warn' | 'error', message: string, facts?: Record<string, unknown>) => void

/** The paths of an installation. Every name comes from ids that the server generated. */
export interface Layout {
  readonly dataDir: string
  readonly runtimeDir: string
  readonly binaries: string
  readonly templates: string
  readonly branches: string
  readonly logs: string
  readonly trash: string
  readonly removed: string
  readonly cache: string
  /** Empty: the root directory of each compute is mounted on it, visible only to that compute. */
  readonly root: string
}

export function layoutOf(options: { dataDir: string; runtimeDir: string }): Layout {
  const dataDir = resolve(options.dataDir)
  return {
    dataDir,
    runtimeDir: resolve(options.runtimeDir),
    binaries: join(dataDir, 'pg'),
    templates: join(dataDir, 'templates'),
    branches: join(dataDir, 'branches'),
    logs: join(dataDir, 'logs'),
    trash: join(dataDir, 'trash'),
    removed: join(dataDir, 'removed'),
    cache: join(dataDir, 'cache'),
    root: join(dataDir, 'root'),
  }
}

/** The directory of one store: `pgdata`, its locks, its fence. */
export function homeOf(layout: Layout, storeId: string): string {
  return join(layout.branches, checkedId(storeId))
}

export function logDirOf(layout: Layout, storeId: string): string {
  return join(layout.logs, checkedId(storeId))
}

/** A server listens only on a Unix socket in a directory of its own: its port is a part of that socket's name. */
export const SERVER_PORT = 5432

/** The socket directory of one store, named by the store's number, since a socket's path is limited. */
export function socketDirOf(layout: Layout, { number }: { readonly number: number }): string {
  const directory = join(layout.runtimeDir, `b${number.toString(36)}`)
  if (Buffer.byteLength(join(directory, '.s.PGSQL.65535')) > SOCKET_PATH_MAX) {
    throw new UsageError(
      `The runtime directory ${layout.runtimeDir} is too long for Unix sockets: choose a shorter one.`,
    )
  }
  return directory
}

/** The owner of a store's files and server; undefined unless Neap runs as root. */
export function ownerOf({ id, uid }: { readonly id: string; readonly uid?: number | null }): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined
  if (!uid) throw new Error(`The store ${id} has no uid.`)
  return { uid, gid: uid }
}

export function isId(name: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,62}$/.test(name)
}

function checkedId(id: string): string {
  if (!isId(id)) throw new Error(`"${id}" is not an id that names a directory`)
  return id
}
