import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Neap, Ran } from '../neap.ts'

const PINNED = fileURLToPath(import.meta.resolve('neonctl/dist/cli.js'))

/** The public command line, unmodified, with a home of its own; it talks to one Neap only. */
export interface Neonctl {
  /** Runs a command and answers how it ended, output as a table. */
  run(args: readonly string[], options?: { readonly key?: string }): Promise<Ran>
  /** Runs a command that must succeed, and answers what it printed as JSON. */
  json<T>(...args: readonly string[]): Promise<T>
  /** Runs a command that must succeed, and answers the text that it printed. */
  text(...args: readonly string[]): Promise<string>
  /** Removes its home. */
  leave(): void
}

/**
 * A command line for a Neap: the file `program`, or the version that comes with Neap's own development. Each run is a
 * process of its own without telemetry, colours or questions; `more` is what it and the psql that it starts get besides.
 */
export function neonctlFor({ ready }: Neap, program = PINNED, more: NodeJS.ProcessEnv = {}): Neonctl {
  const home = mkdtempSync(join(tmpdir(), 'neonctl-'))
  const env = { PATH: process.env['PATH'], HOME: home, CI: 'true', ...more }
  const fixed = ['--api-host', ready.api_url, '--config-dir', home, '--context-file', join(home, '.neon')]

  // In its home, since some commands write into the directory that they run in.
  const ran = (args: readonly string[], key = ready.api_key ?? '') =>
    new Promise<Ran>((resolve) => {
      // Everything behind `--` is for psql.
      const end = args.includes('--') ? args.indexOf('--') : args.length
      const options = [...fixed, '--api-key', key, '--no-analytics', '--no-color']
      const words = [program, ...args.slice(0, end), ...options, ...args.slice(end)]
      execFile(process.execPath, words, { env, cwd: home }, (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
      })
    })
  async function text(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await ran(args)
    assert.equal(code, 0, `neonctl ${args.join(' ')}: ${stderr}${stdout}`)
    return stdout
  }
  return {
    run: (args, { key } = {}) => ran(args, key),
    json: async <T>(...args: readonly string[]) => JSON.parse(await text(...args, '--output', 'json')) as T,
    text,
    leave: () => rmSync(home, { recursive: true, force: true }),
  }
}
