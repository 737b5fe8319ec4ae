import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { UsageError } from '../../errors.ts'
import type { spawnGivingWay } from '../../host/give_way.ts'
import { BARE_ENVIRONMENT } from '../../host/script.ts'

const PACKAGE_OF: Readonly<Record<string, string>> = {
  'mkfs.xfs': 'xfsprogs',
  xfs_growfs: 'xfsprogs',
  xfs_io: 'xfsprogs',
}

/**
 * Runs a program of the system and returns its output.
 * @param start starts it
 * Errors: UsageError naming the package of a missing program; an Error with the standard error of one that fails.
 */
export async function runTool(
  program: string,
  args: readonly string[],
  input = '',
  start: typeof spawnGivingWay = spawn,
): Promise<string> {
  const child = start(program, args, { env: BARE_ENVIRONMENT, stdio: 'pipe' })
  // It could not be started, and may have no streams: its error follows.
  if (child.pid === undefined)
    await once(child, 'spawn').catch((error: unknown) => {
      throw (error as NodeJS.ErrnoException).code === 'ENOENT' ? missing(program) : error
    })
  let [output, complaint] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text))
  // A program that has ended reads no input: its exit code says why.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${program}: ${complaint.trim().replaceAll(/\s*\n\s*/g, ' ') || `exit code ${code}`}`)
  return output
}

const missing = (program: string): UsageError =>
  new UsageError(`This machine has no ${program}: install the package ${PACKAGE_OF[program] ?? 'util-linux'}.`)
