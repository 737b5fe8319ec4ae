import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The process of the server in a home, by the note that its start left. Returns undefined once that process has ended.
 * Inside its walls a server has another pid, and another process may have reused a pid.
 */
export function notedServer(home: string): number | undefined {
  const [, pid, start] = /^(\d+) (.+)\n/.exec(read(join(home, 'server'))) ?? []
  if (pid === undefined || start === undefined) return undefined
  return startOf(Number(pid)) === start || isAliveElsewhere(Number(pid)) ? Number(pid) : undefined
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
