import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTicks } from '../../host/process_start.ts'

/** A server's process, and the id of this run of it. */
export interface NotedServer {
  readonly pid: number
  readonly instance: string
}

/**
 * The server in a home, by the note that its start left: its pid and start time, then its instance id. Returns
 * undefined once that process has ended. Inside its walls a server has another pid, and another process may have reused
 * a pid.
 */
export function notedServer(home: string): NotedServer | undefined {
  const [, number, start, instance] = /^(\d+) (.+)\n(\S+)?/.exec(read(join(home, 'server'))) ?? []
  if (number === undefined || start === undefined) return undefined
  const pid = Number(number)
  if (startTicks(pid) !== start && !isAliveElsewhere(pid)) return undefined
  // A note from before instances had ids: the migration that introduced them names the compute in the same way.
  return { pid, instance: instance ?? `pid-${pid}` }
}

/** Whether a start has left a note; its server may have ended. */
export const hasNote = (home: string): boolean => existsSync(join(home, 'server'))

function isAliveElsewhere(pid: number): boolean {
  if (process.platform === 'linux') return false
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // Other errors, such as too few descriptors, do not mean that there is no note.
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  }
}
