import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { until } from './processes.ts'

/** The code in a notice. */
export const CODE = /[0-9A-Z]{4}-[0-9A-Z]{4}/

/** A connection URI without its password, for a login that waits for approval. */
export function withoutPassword(uri: string, user?: string): string {
  const url = new URL(uri)
  if (user !== undefined) url.username = encodeURIComponent(user)
  url.password = ''
  const named = url.searchParams.get('options')
  url.searchParams.set('options', [named, 'passwordless'].filter(Boolean).join(' '))
  // libpq decodes %20, and leaves a plus sign as it is.
  return url.href.replaceAll('+', '%20')
}

/** A running psql with a login that waits. */
export interface WaitingPsql {
  readonly process: ChildProcess
  readonly ended: Promise<number | null>
  stdout(): string
  stderr(): string
  /** The code in its notice, once it shows one. Errors: psql ended. */
  code(): Promise<string>
}

/** Runs psql, which can ask for no password. */
export function startPsql(connection: string, sql = 'select current_user', env: NodeJS.ProcessEnv = {}): WaitingPsql {
  const child = spawn('psql', ['-XAtqw', connection, '-c', sql], { env: { PATH: process.env['PATH'], ...env } })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  return {
    process: child,
    ended: once(child, 'close').then(([code]: unknown[]) => code as number | null),
    stdout: () => stdout.trim(),
    stderr: () => stderr.trim(),
    code: () =>
      until('a code', async () => {
        if (child.exitCode !== null) throw new Error(`psql ended: ${stderr}`)
        return CODE.exec(stderr)?.[0]
      }),
  }
}
