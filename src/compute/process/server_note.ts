import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

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
  if (startOf(pid) !== start && !isAliveElsewhere(pid)) return undefined
  // A note from before instances had ids: the migration that introduced them names the compute in the same way.
  return { pid, instance: instance ?? `pid-${pid}` }
}

/** Whether a start has left a note; its server may have ended. */
export const hasNote = (home: string): boolean => existsSync(join(home, 'server'))

/** When a process began, in ticks since the boot: the 22nd field of its stat (proc(5)). */
function startOf(pid: number): string | undefined {
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
  // A zombie has ended.
  return fields[0] === 'Z' ? undefined : fields[19]
}

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
    // A process may end while its file is read. Other errors, such as too few descriptors, do not mean that it ended.
    if (['ENOENT', 'ESRCH', 'ENOTDIR', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return ''
    throw error
  }
}
