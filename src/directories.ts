import { accessSync, constants, existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { UsageError } from './errors.ts'

/* The default directories. */

export const isRoot = (): boolean => process.getuid?.() === 0

/** The maximum length of a Unix socket's path in bytes (unix(7)). */
export const SOCKET_PATH_MAX = 107

/** Short, since it begins the paths of sockets; distinct for each data directory. */
export function defaultRuntimeDir(dataDir: string): string {
  // Not imported: that reads every export of node:crypto, which takes every command milliseconds.
  const { createHash } = process.getBuiltinModule('node:crypto')
  const place = `neap-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`
  if (isRoot()) return join(process.platform === 'darwin' ? '/var/run' : '/run', place)
  const perUser = process.env['XDG_RUNTIME_DIR']
  return perUser && existsSync(perUser) ? join(perUser, place) : join('/tmp', `${place}-${process.getuid?.()}`)
}

export function defaultDataDir(): string {
  if (isRoot()) return '/var/lib/neap'
  const home = homedir()
  try {
    accessSync(home, constants.W_OK)
  } catch {
    throw new UsageError(`Your home directory ${home} cannot be written to: say where to keep data with --data-dir.`)
  }
  return process.platform === 'darwin'
    ? join(home, 'Library/Application Support/neap')
    : join(home, '.local/share/neap')
}
