import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn, type SpawnOptions } from 'node:child_process'

/** The shell's exit code when there is no such program. */
export const NO_PROGRAM = 127

/** No lower: a process that waits for the disk or a CPU may hold a file's lock. As give_way in effect.pl. */
const GIVE_WAY = '{ echo 5 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 5 "$@"'

/**
 * Starts a program that lets computes and the control plane go first. It has a session of its own, since the kernel
 * shares the CPUs by session: the niceness that counts would else be that of all its caller's processes (sched(7)). It
 * goes on when its caller ends.
 */
export function spawnGivingWay(
  program: string,
  args: readonly string[],
  options: SpawnOptions & { stdio: 'pipe' | ['pipe', 'pipe', 'pipe'] },
): ChildProcessWithoutNullStreams
export function spawnGivingWay(program: string, args: readonly string[], options: SpawnOptions): ChildProcess
export function spawnGivingWay(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  return spawn('sh', ['-c', GIVE_WAY, 'sh', program, ...args], { ...options, detached: true })
}
