import { type ChildProcessByStdio, spawn, type SpawnOptions } from 'node:child_process'
import type { Readable } from 'node:stream'

/**
 * Starts a program in a session of its own (setsid): the kernel's autogroups share the CPU among sessions, so that programs in one session
 * would have less than those that have one each, as Postgres' processes do. It is killed when this process ends.
 */
export function spawnInSession(
  program: string,
  args: readonly string[],
  options: Pick<SpawnOptions, 'env' | 'uid' | 'gid'>,
): ChildProcessByStdio<null, null, Readable> {
  const child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.on('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  return child
}

// The terminal interrupts its own session only.
process.once('SIGINT', () => process.exit(130))
