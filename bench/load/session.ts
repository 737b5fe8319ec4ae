import { type ChildProcessByStdio, spawn, type SpawnOptions } from 'node:child_process'
import type { Readable } from 'node:stream'

/**
 * Starts a program in a separate session (setsid). The kernel's autogroups share the CPU among sessions: programs in
 * one session would get less than programs with one each, such as Postgres' processes. It is killed when this process
 * ends.
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

// Ctrl-C signals only the terminal's own session.
process.once('SIGINT', () => process.exit(130))
