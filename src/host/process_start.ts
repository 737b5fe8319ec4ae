import { readFileSync } from 'node:fs'

/**
 * When a process began, in ticks since the boot: the 22nd field of its stat (proc(5)). Undefined once it has ended, and
 * on systems without /proc.
 */
export function startTicks(pid: number): string | undefined {
  const fields = readProc(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
  // A zombie has ended.
  return fields[0] === 'Z' ? undefined : fields[19]
}

/** A process for ever: pids are used again, and after a boot the same pid may begin at the same tick. */
export interface ProcessNote {
  readonly pid: number
  /** The id of the boot and the ticks since it; null on systems without /proc. */
  readonly began: string | null
}

export function noteProcess(pid: number): ProcessNote {
  const ticks = startTicks(pid)
  return { pid, began: ticks === undefined ? null : `${bootId()} ${ticks}` }
}

/** Whether the noted process still runs. */
export const isRunning = ({ pid, began }: ProcessNote): boolean => began !== null && noteProcess(pid).began === began

const bootId = (): string => readProc('/proc/sys/kernel/random/boot_id').trim()

/** Reads a file of /proc; empty when the process has ended. Errors: the system's, such as too few descriptors. */
function readProc(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'ENOTDIR', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return ''
    throw error
  }
}
