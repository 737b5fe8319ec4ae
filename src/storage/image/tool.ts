import { spawn } from 'node:child_process'
import { UsageError } from '../../errors.ts'
import { BARE_ENVIRONMENT } from '../../host/script.ts'

const PACKAGE_OF: Readonly<Record<string, string>> = {
  'mkfs.xfs': 'xfsprogs',
  xfs_growfs: 'xfsprogs',
  xfs_io: 'xfsprogs',
}

/**
 * Runs a program of the system and returns its output.
 * Errors: UsageError naming the package of a missing program; an Error with the standard error of one that fails.
 */
export function runTool(program: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env: BARE_ENVIRONMENT, stdio: ['pipe', 'pipe', 'pipe'] })
    let [output, complaint] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text))
    // A program that has ended reads no input: its exit code says why.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    child.once('error', (error: NodeJS.ErrnoException) => reject(error.code === 'ENOENT' ? missing(program) : error))
    child.once('close', (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${program}: ${complaint.trim().replaceAll(/\s*\n\s*/g, ' ') || `exit code ${code}`}`))
    })
  })
}

const missing = (program: string): UsageError =>
  new UsageError(`This machine has no ${program}: install the package ${PACKAGE_OF[program] ?? 'util-linux'}.`)
